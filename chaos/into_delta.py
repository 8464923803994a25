"""Switches of a job whose outputs are Delta tables: totals that are replaced by key, and copies that are added."""

from __future__ import annotations

from functools import partial

from chaos.ledger import read_delta_accounts
from chaos.scenarios import Ask
from chaos.switching import UNHURRIED, SwitchStage
from chaos.watching import Watch
from harness.delta_tables import DeltaReader
from harness.ledger import Account


class DeltaStage(SwitchStage):
    """An installation whose job writes to Delta tables on the local disk."""

    calm_s = 240.0
    haste = UNHURRIED

    def accounts(self) -> list[Account]:
        """Return one account per query; as in the base class, accepted duplicates of the function are no damage."""
        return self._without_accepted(read_delta_accounts(self.bed.input, self.output))

    def _watch(self) -> Watch:
        return Watch(partial(_sum, DeltaReader(str(self.output / "totals"))))

    def _params_of(self, ask: Ask) -> dict[str, object]:
        return {**super()._params_of(ask), "tables": "delta"}


def _sum(table: DeltaReader) -> int | None:
    """Return the sum of ``sales`` in the newest commit, read without Spark and without Streamkeeper; None if the table
    has no commit or lost one.
    """
    if table.is_missing:
        return None
    return sum(int(row["sales"]) for row in table.rows())
