"""One operation of a job, as recorded in its journal."""

from __future__ import annotations

import msgspec

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import ApprovalAnswered, Outcome
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.step_results import (
    Bundled,
    CutoverSnapshots,
    FirstBacklog,
    LastBatches,
    StateKept,
    VersionsRestored,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest


class OperationState(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, open until it has an outcome."""

    operation: str
    """The operation's id."""
    request: DeployRequest
    """The request."""
    steps: tuple[str, ...]
    """Tags of the announced steps."""
    started: int
    """Number of the journal entry that opened it."""
    begun: tuple[str, ...] = ()
    """Tags of the steps that have started to change the current driver or its checkpoint."""
    done: dict[str, dict[str, str]] = {}
    """Tag of a finished step -> its recorded result, which the properties below read."""
    verdict: Verdict | None = None
    """The verdict on the candidate; None before the assessment."""
    reverse: Verdict | None = None
    """The verdict on a rollback from the candidate to the current release; None before the assessment."""
    verdict_sentence: str = ""
    """The assessment's summary."""
    report: str = ""
    """Key of the complete assessment."""
    transitions: dict[str, QueryTransition] = msgspec.field(default_factory=dict, name="ways")
    """Query -> its transition."""
    refusal: str = ""
    """Why a query has no transition; empty otherwise."""
    evidence: str = ""
    """Key of the evidence."""
    approval: ApprovalAnswered | None = None
    """The answer about the state; None without one."""
    compared: dict[str, OutputComparison] = {}
    """Query -> comparison of its rebuilt output with the current one."""
    review: ApprovalAnswered | None = None
    """The answer about a rebuilt output; None without one."""
    fall_back: str = ""
    """Why the candidate was given up; empty otherwise."""
    outcome_if_untouched: Outcome = msgspec.field(default=Outcome.FAILED, name="untouched")
    """The operation's outcome if no current driver or checkpoint had been changed when the candidate was given up."""
    abort: str = ""
    """Who requested to abort the operation, and why; empty otherwise."""
    outcome: Outcome | None = None
    """The outcome; None while the operation is open."""
    sentence: str = ""
    """The outcome as a sentence for a person."""
    fault: str = ""
    """Value of the ``Fault`` of a failed operation."""

    @property
    def release(self) -> str:
        """The release of the operation; empty until its first step is done."""
        return Bundled.read(self._left_by(Step.BUNDLE)).release

    @property
    def kept_state(self) -> dict[str, str]:
        """Query -> the snapshot of its state that was taken before the question about an opaque change."""
        return StateKept.read(self._left_by(Step.KEEP_STATE)).of_query

    @property
    def last_batches(self) -> dict[str, int]:
        """Query -> the last batch that the previous release committed before its driver ended."""
        return LastBatches.read(self._left_by(Step.PROVE_DEAD)).of_query

    @property
    def first_backlog(self) -> dict[str, int]:
        """Query -> unread records when step *first-commit* was done, for queries whose sources report them."""
        return FirstBacklog.read(self._left_by(Step.FIRST_COMMIT)).of_query

    @property
    def cutover_snapshots(self) -> CutoverSnapshots:
        """The snapshots of each query's last batch before the cutover, or why a query has none."""
        return CutoverSnapshots.read(self._left_by(Step.SNAPSHOT))

    @property
    def rebuilt(self) -> dict[str, QueryTransition]:
        """Query -> its transition, for the queries that are rebuilt."""
        return {query: way for query, way in self.transitions.items() if way.way is Transition.REBUILD}

    @property
    def versions_back(self) -> dict[str, str]:
        """Query -> the checkpoint version that was restored for the previous release."""
        return VersionsRestored.read(self._left_by(Step.FALL_BACK)).of_query

    def has_begun(self, step: Step) -> bool:
        """Whether a step may have started to change the current driver or its checkpoint."""
        return step.tag in self.begun

    def has_done(self, step: Step) -> bool:
        """Whether a step is done and need not be repeated."""
        return step.tag in self.done

    def _left_by(self, step: Step) -> dict[str, str]:
        return self.done.get(step.tag, {})
