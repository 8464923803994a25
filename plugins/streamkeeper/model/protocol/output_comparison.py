"""The comparison of two outputs of one query: the current one and a rebuilt one."""

from __future__ import annotations

import msgspec


class OutputComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the old output at ``old_batch`` with the new one at ``new_batch``, by key or by whole rows."""

    comparable: bool = True
    """Whether the outputs could be compared."""
    why: str = ""
    """Why the outputs could not be compared; empty otherwise."""
    same_input: bool = True
    """Whether both outputs were made from the same input."""
    old_rows: int = 0
    """Rows of the old output."""
    new_rows: int = 0
    """Rows of the new output."""
    only_old: int = 0
    """Rows that only the old output has."""
    only_new: int = 0
    """Rows that only the new output has."""
    differing: int = 0
    """Number of common rows that differ in a column outside ``allowed``."""
    allowed: tuple[str, ...] = ()
    """Columns that the request allows to differ."""
    columns: dict[str, int] = {}
    """Column -> number of common rows that differ in that column, allowed columns included."""
    uncompared: tuple[str, ...] = ()
    """Columns outside ``allowed`` that are in only one output, or have different types in the two outputs."""
    sample: tuple[tuple[str, str, str, str], ...] = ()
    """Key, column, old value and new value of some rows that differ."""
    old_batch: int | None = None
    """The newest batch of the old output in the comparison."""
    new_batch: int | None = None
    """The newest batch of the new output in the comparison."""

    def exceeds(self, most_missing: float, most_differing: float) -> str:
        """Return why the comparison exceeds the thresholds; empty if it does not exceed them.

        ``most_missing``: the largest share of the old rows that the new output may lack.
        ``most_differing``: the largest share of the common rows that may differ. The number of rows that only the new
        output has may not exceed the same share of the old rows. Unless the share is 1, every column must have been
        compared.
        """
        common = self.old_rows - self.only_old
        if self.only_old > most_missing * self.old_rows:
            return f"{self.only_old} of {self.old_rows} rows of the current output are missing in the new output"
        if self.differing > most_differing * common:
            return f"{self.differing} of {common} common rows differ{self._where()}"
        if self.only_new > most_differing * self.old_rows:
            return f"{self.only_new} rows of the new output are not in the current output, which has {self.old_rows}"
        return self._left_out() if most_differing < 1 else ""

    @property
    def sentence(self) -> str:
        """The result of the comparison as one line for a person."""
        if not self.comparable:
            return f"not compared: {self.why}"
        rows_text = f"{self.old_rows} rows and {self.new_rows}"
        expected = [f"{name} ({self.columns[name]})" for name in self.allowed if self.columns.get(name)]
        besides = f", apart from {', '.join(expected)}, which may differ" if expected else ""
        if not self.only_old and not self.only_new and not self.differing:
            counts = "the same"
        else:
            counts = f"{self.only_old} only old, {self.only_new} only new, {self.differing} differ{self._where()}"
        return "; ".join(filter(None, (f"{rows_text}: {counts}{besides}", self._left_out())))

    def _left_out(self) -> str:
        return f"not compared: {', '.join(self.uncompared)}" if self.uncompared else ""

    def _where(self) -> str:
        counts = [
            f"{name} {count}" for name, count in sorted(self.columns.items()) if name not in self.allowed and count
        ]
        return f" ({', '.join(counts)})" if counts else ""
