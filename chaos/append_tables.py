"""Switches of a job whose copies go to a table without a key, in which a batch that is written twice would remain."""

from __future__ import annotations

from chaos.ledger import read_append_accounts
from chaos.scenarios import Ask
from chaos.switching import SwitchStage
from harness.ledger import Account


class AppendTableStage(SwitchStage):
    """An installation whose job writes its copies to a table without a key."""

    def accounts(self) -> list[Account]:
        """Return one account per query; as in the base class, accepted duplicates of the function are no damage."""
        return self._without_accepted(read_append_accounts(self.bed.input, self.output))

    def _params_of(self, ask: Ask) -> dict[str, object]:
        return {**super()._params_of(ask), "tables": "append"}
