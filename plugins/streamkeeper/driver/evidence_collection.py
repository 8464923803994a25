"""Gathers the evidence about a candidate, in the Spark process that built it. No other module does so.

The evidence is for a check, a standby, or the driver that describes a candidate for a cold deploy, a dry run or a
rollback. The checks change neither the checkpoint nor the outputs, and a driver may keep writing both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.checkpoints.lasting import examine_twice
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.seen_files import would_read_all
from streamkeeper.checkpoints.source_starts import would_read_on
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility import observations
from streamkeeper.compatibility.checkpoint_damage import damage_findings
from streamkeeper.compatibility.shared_input import input_cleaned_under_others
from streamkeeper.compatibility.state_keys import null_questions, without_nulls
from streamkeeper.compatibility.watermarks import eviction_questions, without_eviction
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.preflight import (
    look_at_history,
    look_at_names,
    look_at_owner,
    look_at_sink,
    look_at_sources,
    present_topics,
)
from streamkeeper.driver.queries import restore_confs
from streamkeeper.driver.warm_up import TIMEOUT_S, has_passed, rehearse_query, rehearse_sink
from streamkeeper.errors import CheckpointChanged
from streamkeeper.inspection.source_readers import describe_replaced
from streamkeeper.inspection.state_reading import has_evicted, holds_null_key
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.concern import Concern, concern_of
from streamkeeper.model.manifests.evidence import Evidence, Look, QueryEvidence
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, Source, without_context
from streamkeeper.model.protocol.output_history import OutputHistory
from streamkeeper.sources.known_sources import asks_the_checkpoint, place_of, reasons_against, source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_ITS_DRIVER = frozenset({"open-batch", "unplanned-source-entry"})
"""Signs of a running driver: an open batch, and files that it has listed and not planned yet.

The driver's own memory and the records decide whether the last batch was removed from both logs (continuity).
"""
_LOST, _FORBIDDEN = "its checkpoint is missing", "an earlier finding forbids running it"
_GOES_ON = "a driver is still writing it, so its content may differ at the handover"


class NotLooked(Exception):
    """Raised by a check that cannot run and is omitted; the message is the reason."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The job whose evidence is gathered, with the facts that the checks need."""

    job: str
    """The job."""
    deployed: Mapping[str, Manifest] | None
    """Query -> manifest of the deployed job; None without one."""
    candidate: Mapping[str, PlannedQuery]
    """Query -> how the candidate built it."""
    checkpoints: Mapping[str, str]
    """Query -> directory of its checkpoint."""
    record: Mapping[str, tuple[Finding, ...]] = {}
    """Query -> recorded findings about it."""
    against: str = ""
    """The release to compare with."""
    served: bool = False
    """Whether a driver keeps writing the checkpoints and outputs."""
    installation: str = ""
    """The id of the installation that would write the outputs, empty if none would."""
    histories: Mapping[str, OutputHistory] = {}
    """Query -> the batches that its output must have."""
    topics: Mapping[str, Mapping[str, str]] = {}
    """Query -> the ids of the Kafka topics to which its checkpoint's offsets belong."""
    first_topics: Mapping[str, Mapping[str, str]] = {}
    """Query -> the ids of the Kafka topics from which the oldest rows in its output came."""
    build_again: Callable[[], Mapping[str, Manifest]] | None = None
    """Builds the candidate a second time; None if its manifests were already compared with those of an earlier
    build.
    """
    rehearse: bool = True
    """Whether to rehearse."""
    timeout_s: float = TIMEOUT_S
    """The time limit of a rehearsal in seconds."""
    root: Path | None = None
    """The directory of the candidate's code, by which errors that it raises itself are recognised."""


def gather_evidence(of: Subject, scratch: str) -> Evidence:
    """Run all checks of every query, and return the evidence. A check that raises an error counts as omitted, with the
    error as the reason.

    ``scratch``: the location for clones, which the driver and all executors can access.
    """
    deployed = of.deployed or {}
    unlike = _built_otherwise(of)
    queries = {
        name: QueryEvidence(deployed=manifest)
        for name, manifest in sorted(deployed.items())
        if name not in of.candidate
    }
    for name, planned in sorted(of.candidate.items()):
        queries[name] = _QueryLooks(of, name, planned, deployed.get(name), scratch, unlike).evidence()
    return Evidence(against=of.against, first=of.deployed is None, queries=queries)


def _built_otherwise(of: Subject) -> Callable[[str], bool]:
    """Return a function that tells whether a second build of a query differs from the first.

    A candidate equal to the deployed job is itself a second build of the job, so no other build is made.
    """
    deployed = of.deployed or {}
    first = {name: to_json(without_context(query.manifest)) for name, query in of.candidate.items()}
    known = {name: to_json(without_context(manifest)) for name, manifest in deployed.items()}
    if of.build_again is None or all(known.get(name) == text for name, text in first.items()):
        return lambda _: False
    try:
        again = {name: to_json(without_context(manifest)) for name, manifest in of.build_again().items()}
    except Exception as error:
        why = f"a second build failed: {describe_fault(error)}"

        def failed(_: str) -> bool:
            raise NotLooked(why)

        return failed
    return lambda name: again.get(name) != first[name]


class _QueryLooks:
    """The checks of one query, in sequence. A query that is damaged or cannot resume is not run."""

    def __init__(
        self,
        of: Subject,
        name: str,
        planned: PlannedQuery,
        deployed: Manifest | None,
        scratch: str,
        unlike: Callable[[str], bool],
    ) -> None:
        """``of``: the subject.
        ``name``: the query.
        ``planned``: how the candidate built it.
        ``deployed``: its deployed manifest, None for a new query.
        ``scratch``: as in ``rehearse``.
        ``unlike``: tells whether a second build differs.
        """
        self._of = of
        self._name = name
        self._planned = planned
        self._deployed = deployed
        self._scratch = scratch
        self._unlike = unlike
        self._session: SparkSession = planned.query.df.sparkSession
        self._found: dict[Look, tuple[Finding, ...]] = {}
        self._not_looked: dict[Look, str] = {}
        self._rehearsed = ""
        self._topics: dict[str, str] = {}

    def evidence(self) -> QueryEvidence:
        """Run all checks and return the evidence; a query without a checkpoint gets no checks of a checkpoint."""
        manifest = self._planned.manifest
        self._look(Look.RECORD, lambda: self._of.record.get(self._name, ()))
        self._look(Look.PROMISES, self._promises)
        self._look(Look.DETERMINISM, self._determinism)
        directory = self._of.checkpoints.get(self._name, "")
        batch, deployed = None, self._deployed
        # A checkpoint that was never started needs no check; a lost one is in the records.
        checkpoint = tree_at(directory) if directory else None
        if checkpoint is not None and (not checkpoint.absence() or self._is_fatal(Look.RECORD)):
            batch = last_committed(checkpoint)
            # Before the examinations: an approval of what they find is for no topic that was created later.
            if self._of.topics.get(self._name) or self._of.first_topics.get(self._name):
                # Any error is reported by the examination of the sources.
                with suppress(Exception):
                    self._topics = present_topics(self._planned.query)
            deployed, manifest = self._look_at_checkpoint(checkpoint)
            if again := describe_replaced(self._of.topics.get(self._name, {}), self._topics):
                # Also if the checkpoint's files forbid the other examinations: a restore then needs the approval.
                text = "; ".join(clause for _, clause in again)
                self._found.setdefault(Look.SOURCES, (observations.topic_created_again(again[0][0], text),))
        else:
            self._look(Look.SINK, self._owner)
            # A query without a batch can miss no rehearsal, so one that is not requested or is forbidden is not
            # reported. If the owner of the output could not be read, the output does not answer, and a rehearsal would
            # only wait for it.
            if self._of.rehearse and Look.SINK not in self._not_looked and not self._is_fatal(*Look):
                self._look(Look.REHEARSAL, self._rehearse_sink)
        return QueryEvidence(
            deployed=deployed,
            candidate=manifest,
            checkpoint=directory,
            batch=batch,
            found=self._found,
            not_looked=self._not_looked,
            rehearsed=self._rehearsed,
            topics=self._topics,
        )

    def _look_at_checkpoint(self, checkpoint: Tree) -> tuple[Manifest | None, Manifest]:
        """Check the checkpoint; return both manifests, with the facts from the state."""
        lost = _LOST if self._is_fatal(Look.RECORD) else ""
        self._look(Look.DAMAGE, lambda: self._damage(checkpoint), unless=lost)
        fatal = _FORBIDDEN if self._is_fatal(*Look) else ""
        self._look(Look.SOURCES, lambda: self._sources(checkpoint), unless=fatal)
        self._look(Look.SINK, lambda: (*self._owner(), *self._sink(checkpoint)), unless=fatal)
        fatal = _FORBIDDEN if self._is_fatal(*Look) else ""
        self._look(Look.REHEARSAL, lambda: self._rehearsal(checkpoint), unless=fatal)
        manifests: list[tuple[Manifest | None, Manifest]] = [(self._deployed, self._planned.manifest)]

        def look_into_state() -> tuple[Finding, ...]:
            if self._deployed is None:
                return ()
            if self._of.served and self._asks_the_state(self._deployed):
                raise NotLooked(_GOES_ON)
            manifests.append(self._sharpened(self._deployed, checkpoint))
            return ()

        self._look(Look.STATE, look_into_state, unless=lost)
        return manifests[-1]

    def _look(self, look: Look, find: Callable[[], Iterable[Finding]], *, unless: str = "") -> None:
        try:
            if unless:
                raise NotLooked(unless)
            self._found[look] = tuple(find())
        except NotLooked as error:
            self._not_looked[look] = str(error)
        except Exception as error:
            self._not_looked[look] = describe_fault(error)

    def _is_fatal(self, *looks: Look) -> bool:
        """Whether one of these checks has a fatal finding. A lost output does not count: a person may accept the loss,
        so a clone can still be run.
        """
        found = [finding for look in looks for finding in self._found.get(look, ())]
        return any(each.severity is Severity.FATAL and concern_of(each) is not Concern.OUTPUT_LOST for each in found)

    def _owner(self) -> Iterator[Finding]:
        yield from look_at_names(self._planned.query, self._deployed)
        yield from look_at_owner(self._of.job, self._planned.query, self._of.installation)

    def _sink(self, checkpoint: Tree) -> Iterator[Finding]:
        same = self._deployed is None or self._deployed.sink.same_place(self._planned.manifest.sink)
        # Committed batches are in the deployed output; a changed output is a separate finding.
        history = self._of.histories.get(self._name) if same else None
        return look_at_sink(self._of.job, self._planned.query, checkpoint, history)

    def _promises(self) -> Iterator[Finding]:
        manifest = self._planned.manifest
        yield from observations.sources_without_promise(manifest, reasons_against(manifest), self._deployed)
        beside = {name: query.manifest for name, query in self._of.candidate.items()}
        yield from input_cleaned_under_others(self._name, beside, self._of.deployed or {})
        yield from observations.row_risks(manifest, self._planned.confs)

    def _determinism(self) -> Iterator[Finding]:
        if self._unlike(self._name):
            yield observations.plan_not_deterministic(self._name)

    def _damage(self, checkpoint: Tree) -> tuple[Finding, ...]:
        # If the release that wrote the checkpoint is unknown, the candidate decides whether there must be state.
        stateful = bool((self._deployed or self._planned.manifest).operators)
        try:
            found = examine_twice(checkpoint.fresh(), stateful=stateful)
        except CheckpointChanged as error:
            raise NotLooked(error.message) from None
        under_way = _OF_ITS_DRIVER if self._of.served else frozenset()
        return damage_findings(each for each in found if each.shape not in under_way)

    def _sources(self, checkpoint: Tree) -> tuple[Finding, ...]:
        query = self._planned.query
        # A topic without one id, such as one of two clusters, is compared neither here nor at the takeover.
        known = self._of.topics.get(self._name, {})
        topics = {topic: identity for topic, identity in known.items() if topic in (self._topics or known)}
        found = tuple(look_at_sources(query, checkpoint, served=self._of.served, topics=topics))
        fatal = any(finding.severity is Severity.FATAL for finding in found)
        first = self._of.first_topics.get(self._name)
        return found if fatal else (*found, *look_at_history(query, checkpoint, topics=first, present=self._topics))

    def _rehearsal(self, checkpoint: Tree) -> tuple[Finding, ...]:
        if not self._of.rehearse:
            raise NotLooked("no rehearsal was wanted")
        restore_confs(self._session, self._planned.confs)
        self._rehearsed, found = rehearse_query(
            self._session,
            self._planned.query,
            checkpoint,
            self._scratch,
            timeout_s=self._of.timeout_s,
            root=self._of.root,
        )
        return found if self._rehearsed or found else self._rehearse_sink()

    def _rehearse_sink(self) -> tuple[Finding, ...]:
        restore_confs(self._session, self._planned.confs)
        outcome, found = rehearse_sink(self._session, self._planned.query)
        # An output that did not answer gives no finding, and a standby retries it.
        self._rehearsed = outcome if found or has_passed(outcome) else ""
        return found

    def _asks_the_state(self, deployed: Manifest) -> bool:
        """Whether the verdict depends on facts that the next batch may change. Before a handover, such facts prove
        nothing.
        """
        candidate = self._planned.manifest
        listed = [
            [source.location for source in of.sources if source_of(source.kind).lists_input]
            for of in (deployed, candidate)
        ]
        return (
            listed[0] != listed[1]
            or any(map(asks_the_checkpoint, deployed.sources, candidate.sources))
            or bool(null_questions(deployed, candidate) or eviction_questions(deployed, candidate))
        )

    def _sharpened(self, deployed: Manifest, checkpoint: Tree) -> tuple[Manifest, Manifest]:
        """Return both manifests, with the facts that only the state itself can determine."""
        candidate = _located(deployed, self._planned.manifest, checkpoint)
        for operator, position in null_questions(deployed, candidate):
            if not holds_null_key(self._session, checkpoint, operator, position):
                deployed = without_nulls(deployed, operator, position)
        for operator in eviction_questions(deployed, candidate):
            if not has_evicted(self._session, checkpoint, operator):
                deployed, candidate = without_eviction(deployed, operator), without_eviction(candidate, operator)
        return deployed, candidate


def _located(deployed: Manifest, candidate: Manifest, checkpoint: Tree) -> Manifest:
    """Return the candidate with ``catches_up`` for sources that moved to a place where they would miss no input."""
    if len(deployed.sources) != len(candidate.sources):
        return candidate
    sources = list(candidate.sources)
    for number, (before, after) in enumerate(zip(deployed.sources, candidate.sources, strict=True)):
        if asks_the_checkpoint(before, after) and _reads_on(checkpoint, number, before, after):
            sources[number] = msgspec.structs.replace(after, catches_up=True)
    return msgspec.structs.replace(candidate, sources=tuple(sources))


def _reads_on(checkpoint: Tree, number: int, before: Source, after: Source) -> bool:
    """Whether a source at its new place is certain to read everything that the checkpoint has not read."""
    name, tree, kind = after.name or str(number), checkpoint.fresh(), source_of(after.kind)
    if kind.lists_input:
        return would_read_all(tree, name, before.location, after.location)
    return would_read_on(tree, name, kind, place_of(after))
