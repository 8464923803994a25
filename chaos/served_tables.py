"""Switches of a job with both tables in PostgreSQL, so that its tasks and drivers may run on any host."""

from __future__ import annotations

from functools import partial

from chaos.ledger import read_table_accounts
from chaos.scenarios import SCENARIOS, Ask
from chaos.switching import UNHURRIED, SwitchStage
from chaos.watching import Watch, sum_in_database
from harness.bed import Bed
from harness.ledger import Account


class ServedTablesStage(SwitchStage):
    """An installation whose job writes only to a database server."""

    calm_s = 240.0
    # What breaks in cutover and probation breaks in a function of the driver's, which no such job has.
    scenarios = {name: each for name, each in SCENARIOS.items() if each.ask.breaks in ("", "shadow")}
    drawn = tuple(scenarios)
    haste = UNHURRIED

    def __init__(self, bed: Bed, database: str) -> None:
        super().__init__(bed)
        self._database = database

    def accounts(self) -> list[Account]:
        """Return one account per query, covering all of the input."""
        return read_table_accounts(self.bed.input, self._database)

    def _watch(self) -> Watch:
        return Watch(partial(sum_in_database, self._database))

    def _params_of(self, ask: Ask) -> dict[str, object]:
        warehouse = self._database.replace("postgresql://", "postgresql+psycopg://")
        return {**super()._params_of(ask), "warehouse": warehouse}
