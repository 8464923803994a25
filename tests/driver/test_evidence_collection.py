"""Tests of what the look at an output finds before anything is drained: who owns the output."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess_evidence
from streamkeeper.driver.evidence_collection import Subject, gather_evidence
from streamkeeper.driver.job_loading import build_queries
from streamkeeper.errors import InvalidInput, OutputOutOfReach
from streamkeeper.model.manifests.evidence import Look
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import Gather, LaunchMode, LaunchSpec
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.table import TableSink
from tests.driver.driver_house import DriverHouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkeeper.driver.job_loading import PlannedQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Told = tuple[Verdict, list[str]]

JOB = """
from streamkeeper import FileSink, Param, Query, TableSink, streaming_job


@streaming_job(name="sales", params={name: Param(str) for name in ("input", "table", "files")})
def sales(spark, params):
    rows = spark.readStream.schema("k string, x long").json(params["input"])
    yield Query("rows", rows, sink=TableSink(params["table"], table="rows", key=["k"]))
    yield Query("copy", rows, sink=FileSink(params["files"]))
"""


class House:
    """A candidate that writes both kinds of output with a fence, which an installation may have claimed."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        (root / "input").mkdir()
        (root / "job.py").write_text(JOB)
        params = {"input": root / "input", "files": root / "files", "table": f"sqlite:///{root / 'sales.db'}"}
        spec = LaunchSpec(
            instance="i1",
            job="sales",
            release="r0001",
            mode=LaunchMode.DESCRIBE,
            bundle="",
            entry="job.py",
            params={name: str(value) for name, value in params.items()},
            conf={},
            checkpoints="",
        )
        self.candidate: dict[str, PlannedQuery] = build_queries(spec, root, spark, {})

    def claim(self, installation: str, job: str = "sales") -> None:
        """Raise both fences in the name of an installation."""
        for name, planned in self.candidate.items():
            context = SinkContext(job=job, query=name, version="v0001", epoch=1, installation=installation)
            writer = planned.query.sink.open(context)
            writer.raise_fence()
            writer.close()

    def restored(self) -> dict[str, str]:
        """Return query -> a checkpoint of one batch, at the places of restored versions."""
        found = {}
        for name, planned in self.candidate.items():
            found[name] = str(self.root / name / "v0002")
            plain = planned.query.df.writeStream.format("noop").option("checkpointLocation", found[name])
            plain.trigger(availableNow=True).start().awaitTermination()
        return found

    def subject(self, installation: str = "", checkpoints: Mapping[str, str] | None = None) -> Subject:
        """Return the candidate as a first deploy, or with these checkpoints."""
        return Subject(
            job="sales",
            deployed=None,
            candidate=self.candidate,
            checkpoints=checkpoints or {},
            installation=installation,
        )

    def verdicts(self, installation: str, checkpoints: Mapping[str, str] | None = None) -> dict[str, Told]:
        """Return query -> the verdict on a release by this installation, and the rules found by the look at the
        output.
        """
        subject = self.subject(installation, checkpoints)
        evidence = gather_evidence(subject, str(self.root / "scratch"))
        judged = assess_evidence(evidence).queries
        looks = {name: query.found[Look.SINK] for name, query in evidence.queries.items()}
        return {name: (judged[name].verdict, [each.rule for each in look]) for name, look in looks.items()}


@pytest.fixture
def house(tmp_path: Path, spark: SparkSession) -> House:
    return House(tmp_path, spark)


def test_an_output_of_another_installation_is_refused_before_anything_is_drained(house: House) -> None:
    """An output whose fence names another installation gets ``REFUSE`` before anything is drained."""
    house.claim("a1")
    refused = (Verdict.REFUSE, ["output-of-another-installation"])
    assert house.verdicts("b2") == {"rows": refused, "copy": refused}


@pytest.mark.parametrize(("owner", "found"), [("returns", ["output-of-another-query"]), ("sales", [])])
def test_an_output_of_another_job_is_refused_before_anything_is_drained(
    house: House, owner: str, found: list[str]
) -> None:
    """An output whose fence names another job gets ``REFUSE`` before anything is drained, whichever installation
    deploys. Control: the output's own job gets ``RESUME``.
    """
    house.claim("a1", owner)
    for asking in ("a1", ""):
        told = house.verdicts(asking)
        assert {name: rules for name, (_, rules) in told.items()} == {"rows": found, "copy": found}
        assert {verdict for verdict, _ in told.values()} == {Verdict.REFUSE if found else Verdict.RESUME}


@pytest.mark.parametrize("asking", ["a1", ""], ids=["its-own", "look-off"])
def test_an_output_of_the_same_or_an_unchecked_installation_gets_resume(house: House, asking: str) -> None:
    """An output of the job's own installation gets ``RESUME``, and so does any output in a check without an
    installation, which does not compare it.
    """
    house.claim("a1")
    passed: Told = (Verdict.RESUME, [])
    assert house.verdicts(asking) == {"rows": passed, "copy": passed}


def test_looking_at_an_unclaimed_output_creates_nothing(house: House) -> None:
    """The look at an output that has never been claimed finds nothing and creates neither a database nor a
    directory.
    """
    passed: Told = (Verdict.RESUME, [])
    assert house.verdicts("b2") == {"rows": passed, "copy": passed}
    assert {path.name for path in house.root.iterdir()} <= {"input", "job.py", "scratch"}


def refusing(error: Exception) -> Callable[..., None]:
    """Return a rehearsal that raises this error."""

    def rehearse(*_: Any) -> None:
        raise error

    return rehearse


def test_a_new_query_that_its_output_refuses_is_refused_before_its_first_batch(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new query, or the first deploy of a job, is refused with the remedy if its output refuses the columns or does
    not exist, also without a batch to run. Negative control: the other query passes.
    """
    monkeypatch.setattr(TableSink, "rehearse", refusing(InvalidInput("table rows is missing", hint="create it")))
    evidence = gather_evidence(house.subject(), str(house.root / "scratch"))
    judged = assess_evidence(evidence).queries
    (found,) = evidence.queries["rows"].found[Look.REHEARSAL]
    assert (judged["rows"].verdict, judged["copy"].verdict) == (Verdict.REFUSE, Verdict.RESUME)
    assert (found.evidence, found.hint) == ("InvalidInput: table rows is missing", "create it")
    assert evidence.queries["rows"].rehearsed == "table rows is missing (create it) (query rows)"
    assert evidence.queries["copy"].rehearsed == "ok: copy has no batch to rerun yet"


def test_a_new_query_whose_output_does_not_answer_is_not_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that does not answer refuses no new query, because its driver waits for the output; the same holds if
    no rehearsal is wanted.
    """
    monkeypatch.setattr(TableSink, "rehearse", refusing(OutputOutOfReach("no answer")))
    assert house.verdicts("a1")["rows"] == (Verdict.RESUME, [])
    evidence = gather_evidence(house.subject(), str(house.root / "scratch"))
    assert evidence.queries["rows"].rehearsed == "", "so that a standby tries it again"
    monkeypatch.setattr(TableSink, "rehearse", refusing(InvalidInput("refused")))
    evidence = gather_evidence(msgspec.structs.replace(house.subject(), rehearse=False), str(house.root / "scratch"))
    assert assess_evidence(evidence).verdict is Verdict.RESUME


def test_an_existing_table_with_the_staging_name_is_refused_before_the_drain(house: House) -> None:
    """A query whose staging table has the name of an unrelated existing table gets ``REFUSE``; the other query passes,
    and so does this one when the name is free.
    """
    passed: Told = (Verdict.RESUME, [])
    with sqlite3.connect(house.root / "sales.db") as connection:
        connection.execute("CREATE TABLE rows__staged (a INTEGER)")
    assert house.verdicts("a1") == {"rows": (Verdict.REFUSE, ["output-name-taken"]), "copy": passed}
    with sqlite3.connect(house.root / "sales.db") as connection:
        connection.execute("DROP TABLE rows__staged")
    assert house.verdicts("a1") == {"rows": passed, "copy": passed}


@pytest.mark.parametrize(("asking", "found"), [("b2", ["output-of-another-installation"]), ("a1", [])])
def test_a_job_restored_from_a_snapshot_does_not_own_the_former_output(
    house: House, asking: str, found: list[str]
) -> None:
    """A job that continues from a restored snapshot owns its checkpoint but not the output in its params: another
    installation is refused, and the output's own is not.
    """
    (house.root / "input" / "0.json").write_text('{"k": "a", "x": 1}')
    checkpoints = house.restored()
    house.claim("a1")
    assert {name: rules for name, (_, rules) in house.verdicts(asking, checkpoints).items()} == {
        "rows": found,
        "copy": found,
    }


def test_a_describing_driver_reports_an_output_of_another_installation(tmp_path: Path) -> None:
    """A driver that only describes a job, as for a dry run, reports an output of another installation in its
    evidence.
    """
    house = DriverHouse(tmp_path)
    context = SinkContext(job=house.job, query="totals", version="v0001", epoch=1, installation="a1")
    writer = TableSink(f"sqlite:///{house.warehouse}", table="sales_totals", key=["customer"]).open(context)
    writer.raise_fence()
    writer.close()
    try:
        process = house.launch("i1", mode=LaunchMode.DESCRIBE, gather=Gather(), installation="b2")
        house.wait_exit(process, 300)
        evidence = house.control("i1").read_evidence()
    finally:
        house.close()
    assert evidence is not None
    (told,) = evidence.queries["totals"].found[Look.SINK]
    assert (told.rule, told.evidence) == (
        "output-of-another-installation",
        "installation a1 writes this output; this installation is b2",
    )
