"""The compatibility check in one Spark session: describe both sides, look at the checkpoint, rehearse on a clone.

Any number of requests share the session's JVM; each job is built in a session of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.layout import find_checkpoints
from streamkeeper.checkpoints.seen_files import would_read_all
from streamkeeper.compatibility import observations
from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.checkpoint_damage import damage_findings
from streamkeeper.compatibility.state_keys import null_questions, without_nulls
from streamkeeper.compatibility.watermarks import eviction_questions, without_eviction
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.job_sessions import build_job, end_python_workers
from streamkeeper.driver.preflight import look_before_start
from streamkeeper.driver.queries import restore_confs
from streamkeeper.driver.warm_up import rehearsal_findings
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged, InvalidInput, NotFound
from streamkeeper.inspection.state_layout import state_layout
from streamkeeper.inspection.state_reading import has_evicted, holds_null_key
from streamkeeper.model.check import CheckAnswer, CheckRequest, JobFile, Seconds
from streamkeeper.model.coding import to_json
from streamkeeper.model.finding import Finding, Verdict, verdict_of
from streamkeeper.model.manifest import Manifest, without_context
from streamkeeper.sources.promises import reasons_against

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOKS = 5
_OWN_WAY_OF_LISTING = frozenset({"maxfileage", "latestfirst", "filenameonly"})
"""Options by which a file source takes other files for read, or for too old, than by default."""


class Checker:
    """Answers requests, one after the other; ``scratch`` is the caller's to remove."""

    def __init__(self, spark: SparkSession, scratch: Path, secrets: Mapping[str, str]) -> None:
        self._spark = spark
        self._scratch = scratch
        self._secrets = secrets
        self._described: dict[bytes, dict[str, Manifest]] = {}

    def answer(self, request: CheckRequest) -> CheckAnswer:
        """The verdict and its findings; an ``error`` for what cannot be checked. Raises nothing of the job's."""
        try:
            return self._answer(request)
        except Exception as error:
            root = Path(request.candidate.root)
            return CheckAnswer(error=" ".join(describe_fault(error, root).split()))
        finally:
            end_python_workers(self._spark)

    def _answer(self, request: CheckRequest) -> CheckAnswer:
        started = time.monotonic()
        layout = _layout_of(request)
        deployed = dict(self._deployed(request, layout))
        candidate = self._build(request.candidate, layout)
        manifests = {name: each.manifest for name, each in candidate.items()}
        again = {name: each.manifest for name, each in self._build(request.candidate, layout).items()}
        described = time.monotonic()
        chosen = _chosen(request, deployed, manifests)
        checkpoints = _checkpoints_of(request, deployed, manifests)
        observed: dict[str, list[Finding]] = {}
        rehearse_s = 0.0
        for name in sorted(chosen & (candidate.keys() | checkpoints.keys())):
            found = observed.setdefault(name, [])
            if name in manifests:
                found += request.findings.get(name, ())
                found += observations.sources_without_promise(manifests[name], reasons_against(manifests[name]))
                if without_context(manifests[name]) != without_context(again[name]):
                    found.append(observations.plan_not_deterministic(name))
            if name in checkpoints and _is_runnable(request.findings.get(name, ())):
                directory = Path(checkpoints[name])
                began = time.monotonic()
                stateful = name in deployed and bool(deployed[name].operators)
                found += self._look_at(
                    directory, candidate.get(name), request, runnable=_is_runnable(found), stateful=stateful
                )
                rehearse_s += time.monotonic() - began
        for name in sorted(chosen & deployed.keys() & manifests.keys() & checkpoints.keys()):
            sharper = self._sharpened(deployed[name], candidate[name], Path(checkpoints[name]))
            deployed[name], manifests[name] = sharper
        assessment = assess(
            {name: each for name, each in deployed.items() if name in chosen},
            {name: each for name, each in manifests.items() if name in chosen},
            observed,
        )
        ended = time.monotonic()
        seconds = Seconds(describe=described - started, rehearse=rehearse_s, total=ended - started)
        return CheckAnswer(assessment=assessment, seconds=seconds)

    def _deployed(self, request: CheckRequest, layout: Mapping[str, str]) -> dict[str, Manifest]:
        if request.manifests is not None:
            return request.manifests
        if request.deployed is None:
            raise InvalidInput("there is nothing to compare with", hint="name the deployed job, or a registered one")
        key = to_json([request.deployed, _stamp(request.deployed), dict(layout)])
        if key not in self._described:
            built = self._build(request.deployed, layout)
            self._described[key] = {name: each.manifest for name, each in built.items()}
        return self._described[key]

    def _build(self, job: JobFile, layout: Mapping[str, str]) -> dict[str, PlannedQuery]:
        return build_job(self._spark, job, layout, self._secrets)

    def _sharpened(self, deployed: Manifest, planned: PlannedQuery, checkpoint: Path) -> tuple[Manifest, Manifest]:
        """Both manifests, with what a look into the state itself can settle."""
        session, candidate = planned.query.df.sparkSession, planned.manifest
        candidate = _located(deployed, candidate, checkpoint)
        for operator, position in null_questions(deployed, candidate):
            if not holds_null_key(session, checkpoint, operator, position):
                deployed = without_nulls(deployed, operator, position)
        for operator in eviction_questions(deployed, candidate):
            if not has_evicted(session, checkpoint, operator):
                deployed, candidate = without_eviction(deployed, operator), without_eviction(candidate, operator)
        return deployed, candidate

    def _look_at(
        self, checkpoint: Path, planned: PlannedQuery | None, request: CheckRequest, *, runnable: bool, stateful: bool
    ) -> Iterator[Finding]:
        """Damage first; what is damaged is not rehearsed."""
        damage = _damage(checkpoint, stateful=stateful)
        yield from damage
        if planned is None or not runnable or not _is_runnable(damage):
            return
        outside = list(look_before_start(request.candidate.name, planned.query, checkpoint))
        yield from outside
        if not request.rehearse or not _is_runnable(outside):
            return
        restore_confs(planned.query.df.sparkSession, planned.confs)
        yield from rehearsal_findings(
            planned.query.df.sparkSession, planned.query, checkpoint, self._scratch, timeout_s=request.timeout_s
        )


def _located(deployed: Manifest, candidate: Manifest, checkpoint: Path) -> Manifest:
    """The candidate with ``catches_up`` where its file source has moved to a place of which it would miss nothing."""
    if len(deployed.sources) != len(candidate.sources):
        return candidate
    sources = list(candidate.sources)
    for number, (before, after) in enumerate(zip(deployed.sources, candidate.sources, strict=True)):
        same_kind = before.kind == after.kind == "file" and not _OWN_WAY_OF_LISTING & after.options.keys()
        log = checkpoint / "sources" / (after.name or str(number))
        if same_kind and before.location != after.location and would_read_all(log, before.location, after.location):
            sources[number] = msgspec.structs.replace(after, catches_up=True)
    return msgspec.structs.replace(candidate, sources=tuple(sources))


def _damage(checkpoint: Path, *, stateful: bool) -> tuple[Finding, ...]:
    """What the files show; a checkpoint that is being written meanwhile is looked at again."""
    for _ in range(_LOOKS):
        try:
            return damage_findings(examine(checkpoint, stateful=stateful))
        except CheckpointChanged:
            continue
    return ()


def _is_runnable(findings: Iterable[Finding]) -> bool:
    """Whether nothing found so far forbids to run the candidate."""
    return verdict_of(findings) is not Verdict.REFUSE


def _stamp(job: JobFile) -> list[tuple[str, int]]:
    """What tells a changed job folder from the one that was described before."""
    root = Path(job.root)
    return sorted((str(path.relative_to(root)), path.stat().st_mtime_ns) for path in root.rglob("*.py"))


def _layout_of(request: CheckRequest) -> dict[str, str]:
    """The state store's layout as the checkpoint has it: it is kept unless a job's own conf says otherwise."""
    layout: dict[str, str] = {}
    single = find_checkpoints(Path(request.checkpoints[""])).values() if "" in request.checkpoints else ()
    for directory in single or map(Path, request.checkpoints.values()):
        try:
            layout |= state_layout(directory)
        except CheckpointDamaged:
            continue
    return layout


def _chosen(request: CheckRequest, deployed: Mapping[str, object], candidate: Mapping[str, object]) -> set[str]:
    if not request.query:
        return {*deployed, *candidate}
    if request.query not in deployed and request.query not in candidate:
        known = ", ".join(sorted({*deployed, *candidate}))
        raise NotFound(f"there is no query {request.query}", hint=f"the job's queries: {known}")
    return {request.query}


def _checkpoints_of(
    request: CheckRequest, deployed: Mapping[str, object], candidate: Mapping[str, object]
) -> dict[str, str]:
    """Query -> checkpoint; a single one belongs to the only query, or to the one that was named."""
    if "" not in request.checkpoints:
        return dict(request.checkpoints)
    given = request.checkpoints[""]
    found = {name: str(each) for name, each in find_checkpoints(Path(given)).items()}
    wanted = [request.query] if request.query else sorted(deployed)
    if len(wanted) == 1 and (not found or "" in found):
        return {wanted[0]: found.get("", given)}
    missing = [name for name in wanted if name not in found]
    if "" in found or missing == wanted:
        raise InvalidInput(
            f"the job has {len(wanted)} queries ({', '.join(wanted)}), and one checkpoint was given",
            hint="name the query it belongs to: --query NAME; or the directory in which each has one of its name",
        )
    if missing:
        raise InvalidInput(
            f"{given} holds no checkpoint of query {', '.join(missing)}",
            hint=f"it holds: {', '.join(sorted(found))}; look at one query alone: --query NAME",
        )
    return {name: found[name] for name in wanted}
