"""Measures what Spark does with each case, and keeps the checkpoints for the check.

``root/units/<key>``: a job that starts from scratch: its directories, its checkpoint after the rows before the change,
and its results. ``root/cases/<id>-<provider>``: the candidate's job file and, if the case damages its checkpoint, the
damaged copy.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from conformance.matrix.case import JOB_NAME, QUERY_NAME, Case, Unit
from conformance.matrix.damage import DAMAGES
from conformance.matrix.data import KAFKA
from conformance.matrix.outcome import judge
from conformance.matrix.record import Truth
from conformance.matrix.runs import ENTRY, Run, UnitRun, run_job, write_job
from conformance.matrix.topics import add_after, make_topics, params_of
from harness.checkout import read_origin
from streamkeeper.model.manifests.release import ParamValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from harness.kafka_broker import KafkaBroker

_MARK = "key"


class CaseBroken(Exception):
    """The deployed job of a case cannot run at all, so the case itself is wrong."""


class Place:
    """The directories of one unit below the root."""

    def __init__(self, root: Path, unit: Unit) -> None:
        self.unit = unit
        self.folder = root / "units" / unit.key
        self.job = self.folder / "deployed"
        self.input = self.folder / "in"
        self.output = self.folder / "out"
        self.checkpoint = self.folder / "checkpoint"
        self.record = self.folder / "run.json"

    def params(self, given: Mapping[str, str | int], output: Path | None = None) -> dict[str, ParamValue]:
        """Return the params with this unit's directories filled in."""
        places = {
            "input": str(self.input / "a"),
            "other": str(self.input / "b"),
            "root": str(self.input),
            "output": str(output or self.output),
        }
        filled = {key: value.format(**places) if isinstance(value, str) else value for key, value in given.items()}
        own = {"input": places["input"], "other": places["other"], "output": places["output"]}
        if self.unit.data.form == KAFKA:
            own |= params_of(self.input)
        return {**own, **filled}

    def make_input(self, broker: KafkaBroker | None) -> None:
        """Provide the input that the job reads before the change."""
        if self.unit.data.form == KAFKA:
            make_topics(self.input, self.unit.data, broker)
        else:
            self.unit.data.place(self.input, after=False)

    @contextmanager
    def with_after(self, broker: KafkaBroker | None) -> Iterator[None]:
        """Provide the input that arrives after the change while the body runs. Files are removed afterwards; the rows
        of a topic stay.
        """
        assert self.record.exists(), "rows of after before the head has run"
        if self.unit.data.form == KAFKA:
            add_after(self.input, self.unit.data, broker)
            yield
            return
        self.unit.data.place(self.input, after=True)
        try:
            yield
        finally:
            self.unit.data.place(self.input, after=False)


class Bench:
    """Measures cases in one Spark session. With ``with_state``, the state must also equal the state of a run from
    scratch.

    ``broker`` is the Kafka broker on which the topics of the Kafka cases are created.
    """

    def __init__(
        self, spark: SparkSession, root: Path, *, with_state: bool = False, broker: KafkaBroker | None = None
    ) -> None:
        self._broker = broker
        self._with_state = with_state
        self._spark = spark
        self._root = root
        self._work = root / "work"
        self._origin = read_origin()

    def measure(self, case: Case, provider: str) -> Truth:
        """Measure and return the outcome of a case; its checkpoint and job files are kept for the check."""
        started = time.monotonic()
        place = self.deploy(case, provider)
        head = self._unit(place.unit, tail=False).head
        candidate = case.candidate(provider)
        shutil.rmtree(self._work, ignore_errors=True)
        checkpoint, output = self._work / "checkpoint", output_of(self._root, case, provider)
        shutil.copytree(checkpoint_of(self._root, case, provider), checkpoint)
        with _put_back(output), place.with_after(self._broker):
            got = run_job(
                self._spark,
                case_folder(self._root, case, provider) / "candidate",
                checkpoint=checkpoint,
                params=place.params(candidate.params, output),
                conf=candidate.conf,
                epoch=2,
                with_state=self._with_state,
            )
        scratch = None if got.error_class else self._unit(candidate, tail=True)
        judgement = judge(case, before=head, got=got, scratch=scratch, pinned=_pinned(case, provider, checkpoint))
        shutil.rmtree(self._work, ignore_errors=True)
        return Truth(
            id=case.id,
            provider=provider,
            key=case.key(provider),
            outcome=judgement.outcome,
            measured=judgement.measured,
            error_class=judgement.error_class,
            evidence=judgement.evidence.replace(str(self._root), "…"),
            seconds=round(time.monotonic() - started, 2),
            spark=self._spark.version,
            commit=self._origin["commit"],
            code=self._origin["code"],
        )

    def deploy(self, case: Case, provider: str) -> Place:
        """Create the deployed job's checkpoint, write the candidate's files, and apply the damage of the case; raises
        CaseBroken.
        """
        place = Place(self._root, case.deployed(provider))
        head = self._unit(place.unit, tail=False).head
        if head.error_class:
            raise CaseBroken(f"{case.id} {provider}: its deployed job does not run: {head.error_class} {head.message}")
        folder = case_folder(self._root, case, provider)
        write_job(case.new, folder / "candidate")
        if case.damage:
            for source, target in ((place.checkpoint, folder / "checkpoint"), (place.output, folder / "out")):
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source, target)
            _move_sink_log(folder / "out", place.output)
            DAMAGES[case.damage](folder / "checkpoint", folder / "out")
        (folder / _MARK).write_text(case.key(provider))
        return place

    def _unit(self, unit: Unit, *, tail: bool) -> UnitRun:
        """Run a unit from scratch, or return the recorded result of an earlier run."""
        place = Place(self._root, unit)
        if place.record.exists():
            known = msgspec.json.decode(place.record.read_bytes(), type=UnitRun)
        else:
            shutil.rmtree(place.folder, ignore_errors=True)
            place.make_input(self._broker)
            write_job(unit.job, place.job)
            place.output.mkdir()
            known = UnitRun(head=self._run(place, place.checkpoint, epoch=1))
            _write(place.record, known)
        if tail and known.tail is None:
            known = UnitRun(head=known.head, tail=self._tail(place))
            _write(place.record, known)
        return known

    def _tail(self, place: Place) -> Run:
        work = self._root / "tail"
        shutil.rmtree(work, ignore_errors=True)
        if place.checkpoint.is_dir():
            shutil.copytree(place.checkpoint, work)
        with _put_back(place.output), place.with_after(self._broker):
            found = self._run(place, work, epoch=2)
        shutil.rmtree(work, ignore_errors=True)
        return found

    def _run(self, place: Place, checkpoint: Path, *, epoch: int) -> Run:
        return run_job(
            self._spark,
            place.job,
            checkpoint=checkpoint,
            params=place.params(place.unit.params),
            conf=place.unit.conf,
            epoch=epoch,
            with_state=self._with_state and epoch > 1,
        )


def case_folder(root: Path, case: Case, provider: str) -> Path:
    """Return the folder that holds the case's own files."""
    return root / "cases" / f"{case.id}-{'stateless' if provider == '-' else provider}"


def checkpoint_of(root: Path, case: Case, provider: str) -> Path:
    """Return the checkpoint to check: that of the unit, or the damaged copy."""
    if case.damage:
        return case_folder(root, case, provider) / "checkpoint"
    return Place(root, case.deployed(provider)).checkpoint


def output_of(root: Path, case: Case, provider: str) -> Path:
    """Return the output that belongs to the checkpoint to check: that of the unit, or the damaged copy."""
    return case_folder(root, case, provider) / "out" if case.damage else Place(root, case.deployed(provider)).output


def write_candidate(root: Path, case: Case, provider: str) -> bool:
    """Write the candidate's files if the case damages nothing and its deployed job has already run; return whether they
    were written.
    """
    if case.damage or not Place(root, case.deployed(provider)).record.exists():
        return False
    folder = case_folder(root, case, provider)
    write_job(case.new, folder / "candidate")
    (folder / _MARK).write_text(case.key(provider))
    return True


def is_deployed(root: Path, case: Case, provider: str) -> bool:
    """Return whether all files that the check needs for this case exist and are up to date."""
    unit = Place(root, case.deployed(provider))
    return unit.record.exists() and _read(case_folder(root, case, provider) / _MARK) == case.key(provider)


def request_of(root: Path, case: Case, provider: str) -> dict[str, Any]:
    """Return the request line of a case for ``streamkeeper check --batch``."""
    deployed, candidate = case.deployed(provider), case.candidate(provider)
    place, output = Place(root, deployed), output_of(root, case, provider)
    return {
        "deployed": f"{place.job / ENTRY}:{JOB_NAME}",
        "candidate": f"{case_folder(root, case, provider) / 'candidate' / ENTRY}:{JOB_NAME}",
        "checkpoint": str(checkpoint_of(root, case, provider)),
        "query": QUERY_NAME,
        "params": place.params(deployed.params, output),
        "candidate_params": place.params(candidate.params, output),
        "conf": dict(deployed.conf),
        "candidate_conf": dict(candidate.conf),
    }


def _pinned(case: Case, provider: str, checkpoint: Path) -> tuple[str, ...]:
    """Return the changed settings for which the newest offset file still records a different value, as
    ``key=value``.
    """
    asked, had = case.candidate(provider).conf, case.deployed(provider).conf
    changed = {key: value for key, value in asked.items() if had.get(key) != value}
    offsets = [each for each in (checkpoint / "offsets").glob("*") if each.name.isdecimal()]
    if not changed or not offsets:
        return ()
    newest = max(offsets, key=lambda each: int(each.name))
    kept = json.loads(newest.read_text().splitlines()[1]).get("conf", {})
    return tuple(f"{key}={kept[key]}" for key, value in changed.items() if key in kept and kept[key] != value)


@contextmanager
def _put_back(output: Path) -> Iterator[None]:
    """Let the body write to the original output, and restore the output afterwards. A copy would not do, because a sink
    log contains absolute paths.
    """
    kept = output.with_name(f"{output.name}.kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(output, kept)
    try:
        yield
    finally:
        shutil.rmtree(output)
        kept.rename(output)


def _move_sink_log(output: Path, original: Path) -> None:
    """Replace the paths in the sink log of a copied output by the paths of the copied files."""
    for file in output.glob("*/_spark_metadata/[0-9]*"):
        file.write_text(file.read_text().replace(str(original), str(output)))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _write(file: Path, value: UnitRun) -> None:
    draft = file.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(value))
    draft.rename(file)
