"""One operation of a job, as its journal has it."""

from __future__ import annotations

import msgspec

from streamkeeper.model.comparison import OutputComparison
from streamkeeper.model.finding import Verdict
from streamkeeper.model.journal import ApprovalAnswered, Outcome
from streamkeeper.model.request import DeployRequest
from streamkeeper.model.step import Step
from streamkeeper.model.step_results import (
    Bundled,
    CutoverSnapshots,
    FirstBacklog,
    LastBatches,
    StateKept,
    VersionsRestored,
)
from streamkeeper.model.ways import QueryWay


class OperationState(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, open until it has an outcome.

    ``steps``, ``begun``: tags; ``done``: tag -> what stands on record of it, which the properties read. ``compared``:
    query -> how far its rebuilt output is the serving one; ``review``: what a person said of that.
    ``fault``: a ``Fault`` by its value, of one that has failed.
    """

    operation: str
    request: DeployRequest
    steps: tuple[str, ...]
    started: int
    begun: tuple[str, ...] = ()
    done: dict[str, dict[str, str]] = {}
    verdict: Verdict | None = None
    reverse: Verdict | None = None
    verdict_sentence: str = ""
    report: str = ""
    ways: dict[str, QueryWay] = {}
    refusal: str = ""
    evidence: str = ""
    approval: ApprovalAnswered | None = None
    compared: dict[str, OutputComparison] = {}
    review: ApprovalAnswered | None = None
    fall_back: str = ""
    untouched: Outcome = Outcome.FAILED
    abort: str = ""
    outcome: Outcome | None = None
    sentence: str = ""
    fault: str = ""

    @property
    def release(self) -> str:
        """The release that it is about; empty until its first step is done."""
        return Bundled.read(self._left_by(Step.BUNDLE)).release

    @property
    def kept_state(self) -> dict[str, str]:
        """Query -> the snapshot of its state, taken before a person was asked about an opaque change."""
        return StateKept.read(self._left_by(Step.KEEP_STATE)).of_query

    @property
    def last_batches(self) -> dict[str, int]:
        """Query -> the last batch that the release which ended has committed."""
        return LastBatches.read(self._left_by(Step.PROVE_DEAD)).of_query

    @property
    def first_backlog(self) -> dict[str, int]:
        """Query -> how many records waited for it at its first commit, as far as its sources tell."""
        return FirstBacklog.read(self._left_by(Step.FIRST_COMMIT)).of_query

    @property
    def cutover_snapshots(self) -> CutoverSnapshots:
        """Of the last batches before the cutover."""
        return CutoverSnapshots.read(self._left_by(Step.SNAPSHOT))

    @property
    def versions_back(self) -> dict[str, str]:
        """Query -> the checkpoint version that was restored for the release before."""
        return VersionsRestored.read(self._left_by(Step.FALL_BACK)).of_query

    def has_begun(self, step: Step) -> bool:
        """Whether a step has touched what serves, or is about to."""
        return step.tag in self.begun

    def has_done(self, step: Step) -> bool:
        """Whether a step is done and need not be done again."""
        return step.tag in self.done

    def _left_by(self, step: Step) -> dict[str, str]:
        return self.done.get(step.tag, {})
