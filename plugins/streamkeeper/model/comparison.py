"""What two outputs of one query, the serving one and a rebuilt one, have in common."""

from __future__ import annotations

import msgspec


class OutputComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two outputs after ``old_batch`` and ``new_batch``, compared by key, or row by row where there is none.

    ``why``: why they cannot be compared; ``same_input``: whether both had read the same; ``sample``: key, column, old
    value and new value of some rows that differ.
    """

    comparable: bool = True
    why: str = ""
    same_input: bool = True
    old_rows: int = 0
    new_rows: int = 0
    only_old: int = 0
    only_new: int = 0
    differing: int = 0
    sample: tuple[tuple[str, str, str, str], ...] = ()
    old_batch: int | None = None
    new_batch: int | None = None

    def exceeds(self, most_missing: float, most_differing: float) -> str:
        """Why the thresholds (shares of the old rows, and of the common ones) do not let it pass; empty if they do."""
        common = self.old_rows - self.only_old
        if self.only_old > most_missing * self.old_rows:
            return f"{self.only_old} of {self.old_rows} rows of the serving output are missing in the new one"
        if self.differing > most_differing * common:
            return f"{self.differing} of {common} common rows differ"
        return ""

    @property
    def sentence(self) -> str:
        """For a person."""
        if not self.comparable:
            return f"not compared: {self.why}"
        told = f"{self.old_rows} rows and {self.new_rows}"
        if not self.only_old and not self.only_new and not self.differing:
            return f"{told}: the same"
        return f"{told}: {self.only_old} only old, {self.only_new} only new, {self.differing} differ"
