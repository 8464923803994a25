"""A deploy that was played out in a world of its own, as the journal has it: every record with its moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from streamkeeper.lifecycle.steps import plan_deploy
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.records.job_state import fold
from streamkeeper.model.records.journal_records import Entry, OperationStarted, Record
from streamkeeper.operations.jobs.carriers import Carrier
from streamkeeper.operations.jobs.operation_record import OperationRecord, served_before
from tests.lifecycle.deploy_world import OP, World

BEGAN = datetime(2026, 11, 25, 12, tzinfo=UTC)
STEP_S = 10.0
"""Between two records."""


class Played(World):
    """Keeps what it records: an entry every ten seconds."""

    def record(self, record: Record) -> None:
        """One more entry; an operation announces what it would."""
        if isinstance(record, OperationStarted):
            plan = plan_deploy(record.request, serving=self.state.predecessor, stopped=self.state.stopped)
            record = msgspec.structs.replace(record, steps=tuple(each.step.tag for each in plan))
        number = self.state.number + 1
        at = BEGAN + timedelta(seconds=STEP_S * number)
        entry = Entry(number=number, at=at.isoformat(), by="test", record=record)
        self.state = fold(self.state, entry)
        self.entries.append(entry)

    @property
    def entries(self) -> list[Entry]:
        """All of them, from the first on."""
        return self.__dict__.setdefault("_entries", [])

    def play_until(self, label: str) -> None:
        """Stop before the first act of a step."""
        for _ in range(400):
            decision = self.decide()
            assert decision is not None
            if decision.step.label == label:
                return
            self.perform(decision)
            self.move()
        raise AssertionError(f"{label} was not reached")

    def read(self, *, assessment: Assessment | None = None, carrier: Carrier | None = None) -> OperationRecord:
        """As whoever looks at it now would find it."""
        operation = self.operation
        return OperationRecord(
            state=self.state,
            operation=operation,
            entries=tuple(each for each in self.entries if each.number >= operation.started),
            before=served_before(self.state, self.state.operations[OP]),
            assessment=assessment,
            carrier=carrier,
        )
