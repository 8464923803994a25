"""The compatibility check in one Spark session: builds both sides, gathers the evidence, judges it.

Any number of requests share the session's JVM; each job is built in its own session.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.authoring.job_code import content_of
from streamkeeper.checkpoints.layout import find_checkpoints
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.compatibility.assess import assess_evidence
from streamkeeper.driver.evidence_collection import Subject, gather_evidence
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.job_sessions import build_job, end_python_workers
from streamkeeper.errors import CheckpointDamaged, InvalidInput, NotFound
from streamkeeper.inspection.state_layout import state_layout
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.check_messages import CheckAnswer, CheckRequest, JobFile, Seconds
from streamkeeper.system import clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Checker:
    """Answers check requests, one after the other; the caller removes ``scratch``."""

    def __init__(self, spark: SparkSession, scratch: Path, secrets: Mapping[str, str]) -> None:
        self._spark = spark
        self._scratch = scratch
        self._secrets = secrets
        self._described: dict[bytes, dict[str, Manifest]] = {}

    def answer(self, request: CheckRequest) -> CheckAnswer:
        """Return the verdict and its findings, or an answer with ``error`` for a job that cannot be checked. The job's
        own errors are not raised.
        """
        try:
            return self._answer(request)
        except Exception as error:
            root = Path(request.candidate.root)
            return CheckAnswer(error=" ".join(describe_fault(error, root).split()))
        finally:
            end_python_workers(self._spark)

    def _answer(self, request: CheckRequest) -> CheckAnswer:
        started = clock.monotonic()
        layout = _layout_of(request)
        deployed = self._deployed(request, layout)
        candidate = self._build(request.candidate, layout)
        described = clock.monotonic()
        chosen = _chosen(request, deployed, candidate)
        evidence = gather_evidence(
            Subject(
                job=request.candidate.name,
                deployed={name: manifest for name, manifest in deployed.items() if name in chosen},
                candidate={name: manifest for name, manifest in candidate.items() if name in chosen},
                checkpoints=_checkpoints_of(request, deployed),
                record=request.findings,
                served=request.served,
                histories=request.histories,
                topics=request.topics,
                first_topics=request.first_topics,
                build_again=lambda: {
                    name: query.manifest for name, query in self._build(request.candidate, layout).items()
                },
                rehearse=request.rehearse,
                timeout_s=request.timeout_s,
                root=Path(request.candidate.root),
            ),
            str(self._scratch),
        )
        gathered = clock.monotonic()
        assessment = assess_evidence(evidence)
        ended = clock.monotonic()
        seconds = Seconds(describe=described - started, rehearse=gathered - described, total=ended - started)
        return CheckAnswer(assessment=assessment, evidence=evidence, seconds=seconds)

    def _deployed(self, request: CheckRequest, layout: Mapping[str, str]) -> dict[str, Manifest]:
        """Return the deployed job's manifests. The job is built once for all requests, and is rebuilt only if a file of
        its bundle changes.
        """
        if request.manifests is not None:
            return request.manifests
        if request.deployed is None:
            raise InvalidInput(
                "no deployed job is given to compare with", hint="name the deployed job's file, or a registered job"
            )
        content = content_of(Path(request.deployed.root))
        key = to_json([request.deployed, content, dict(layout)])
        if not content or key not in self._described:
            built = self._build(request.deployed, layout)
            self._described[key] = {name: query.manifest for name, query in built.items()}
        return self._described[key]

    def _build(self, job: JobFile, layout: Mapping[str, str]) -> dict[str, PlannedQuery]:
        return build_job(self._spark, job, layout, self._secrets)


def _layout_of(request: CheckRequest) -> dict[str, str]:
    """Return the state store's layout in the checkpoint, which applies unless a job's own conf overrides it."""
    layout: dict[str, str] = {}
    single = _found_in(request.checkpoints[""]).values() if "" in request.checkpoints else ()
    for checkpoint in map(tree_at, single or request.checkpoints.values()):
        try:
            layout |= state_layout(checkpoint)
        except CheckpointDamaged:
            continue
        except NotFound:
            if not any(request.findings.values()):
                raise
    return layout


def _found_in(directory: str) -> dict[str, str]:
    """Return query -> directory of its checkpoint, for the checkpoints in a directory."""
    found = find_checkpoints(tree_at(directory)).items()
    return {name: f"{directory.rstrip('/')}/{folder}".rstrip("/") for name, folder in found}


def _chosen(request: CheckRequest, deployed: Mapping[str, object], candidate: Mapping[str, object]) -> set[str]:
    if not request.query:
        return {*deployed, *candidate}
    if request.query not in deployed and request.query not in candidate:
        known = ", ".join(sorted({*deployed, *candidate}))
        raise NotFound(f"there is no query {request.query}", hint=f"name one of the job's queries: {known}")
    return {request.query}


def _checkpoints_of(request: CheckRequest, deployed: Mapping[str, object]) -> dict[str, str]:
    """Return query -> checkpoint; a single checkpoint belongs to the only query, or to the query that the request
    names.
    """
    if "" not in request.checkpoints:
        return dict(request.checkpoints)
    checkpoint = request.checkpoints[""]
    found = _found_in(checkpoint)
    wanted = [request.query] if request.query else sorted(deployed)
    if len(wanted) == 1 and (not found or "" in found):
        return {wanted[0]: found.get("", checkpoint)}
    missing = [name for name in wanted if name not in found]
    if "" in found or missing == wanted:
        raise InvalidInput(
            f"the job has {len(wanted)} queries ({', '.join(wanted)}), but one checkpoint was given",
            hint="name the checkpoint's query with `--query NAME`, or name a directory with one checkpoint per query,"
            " each in a folder with the query's name",
        )
    if missing:
        raise InvalidInput(
            f"{checkpoint} has no checkpoint of query {', '.join(missing)}",
            hint=f"check one of {', '.join(sorted(found))} with `--query NAME`",
        )
    return {name: found[name] for name in wanted}
