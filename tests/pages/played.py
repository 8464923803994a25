"""Simulates a deploy in a world of its own and keeps its journal: every record with its time."""

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
"""Seconds between two records."""


class Played(World):
    """A simulated world that keeps its records as journal entries, one every ten seconds."""

    def record(self, record: Record) -> None:
        """Append one more entry; a started operation gets the steps that its plan announces."""
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
        """All entries, oldest first."""
        return self.__dict__.setdefault("_entries", [])

    def play_until(self, label: str) -> None:
        """Run the deploy until just before the first act of the step with this label."""
        for _ in range(400):
            decision = self.decide()
            assert decision is not None
            if decision.step.label == label:
                return
            self.perform(decision)
            self.move()
        raise AssertionError(f"{label} was not reached")

    def read(self, *, assessment: Assessment | None = None, carrier: Carrier | None = None) -> OperationRecord:
        """Return the operation's record as a reader would find it now."""
        operation = self.operation
        return OperationRecord(
            state=self.state,
            operation=operation,
            entries=tuple(each for each in self.entries if each.number >= operation.started),
            before=served_before(self.state, self.state.operations[OP]),
            assessment=assessment,
            carrier=carrier,
        )
