"""What two outputs of one query, the serving one and a rebuilt one, have in common."""

from __future__ import annotations

import msgspec


class OutputComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two outputs after ``old_batch`` and ``new_batch``, compared by key, or row by row where there is none.

    ``why``: why they cannot be compared; ``uncompared``: columns that only one of the two has, or that have another
    type in each, and that may not differ; ``same_input``: whether both had read the same. ``differing``: common rows of
    which a column differs that may not; ``allowed``: the columns that may; ``columns``: column -> common rows in which
    it differs, those that may included. ``sample``: key, column, old value and new value of some rows that differ.
    """

    comparable: bool = True
    why: str = ""
    same_input: bool = True
    old_rows: int = 0
    new_rows: int = 0
    only_old: int = 0
    only_new: int = 0
    differing: int = 0
    allowed: tuple[str, ...] = ()
    columns: dict[str, int] = {}
    uncompared: tuple[str, ...] = ()
    sample: tuple[tuple[str, str, str, str], ...] = ()
    old_batch: int | None = None
    new_batch: int | None = None

    def exceeds(self, most_missing: float, most_differing: float) -> str:
        """Why the thresholds (shares of the old rows, and of the common ones) do not let it pass; empty if they do.

        Rows that only the new output has count as rows that differ: over the same input there should be none.
        """
        common = self.old_rows - self.only_old
        if self.only_old > most_missing * self.old_rows:
            return f"{self.only_old} of {self.old_rows} rows of the serving output are missing in the new one"
        if self.differing > most_differing * common:
            return f"{self.differing} of {common} common rows differ{self._where()}"
        if self.only_new > most_differing * self.old_rows:
            return f"{self.only_new} rows of the new output are not in the serving one, which has {self.old_rows}"
        return self._left_out() if most_differing < 1 else ""

    @property
    def sentence(self) -> str:
        """For a person."""
        if not self.comparable:
            return f"not compared: {self.why}"
        told = f"{self.old_rows} rows and {self.new_rows}"
        expected = [f"{name} ({self.columns[name]})" for name in self.allowed if self.columns.get(name)]
        besides = f", apart from {', '.join(expected)}, which may differ" if expected else ""
        if not self.only_old and not self.only_new and not self.differing:
            counts = "the same"
        else:
            counts = f"{self.only_old} only old, {self.only_new} only new, {self.differing} differ{self._where()}"
        return "; ".join(filter(None, (f"{told}: {counts}{besides}", self._left_out())))

    def _left_out(self) -> str:
        return f"not compared: {', '.join(self.uncompared)}" if self.uncompared else ""

    def _where(self) -> str:
        told = [f"{name} {count}" for name, count in sorted(self.columns.items()) if name not in self.allowed and count]
        return f" ({', '.join(told)})" if told else ""
