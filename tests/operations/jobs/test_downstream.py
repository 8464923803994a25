"""Which jobs read the output of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.watch.fleet_index import FleetIndex, JobMemory, JobRow
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.watched_facts import JobFacts
from streamkeeper.operations.jobs import downstream
from streamkeeper.operations.jobs.downstream import Readers, find_readers
from streamkeeper.registry.driver_control import Control
from tests.compatibility.manifests import STATEFUL, with_source
from tests.operations.registered_job import JOB, QUERY, Registered

FILES = SinkDescription(kind="file", output="/out/totals", options={})


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def reading(job: Registered, name: str, location: str, *, kind: str = "file", forgotten: bool = False) -> JobRow:
    """Return the row of a different job that reads this location."""
    Control(job.installation.store, name, "d").write_manifests(
        {"copy": with_source(STATEFUL, location=location, kind=kind)}
    )
    facts = JobFacts(
        number=1, wanted=True, stopped="", serving_release="r0001", serving_instance="d", desired_release="r0001",
        last_failure="", forgotten=forgotten,
    )  # fmt: skip
    return JobRow(job=name, standing=JobStatus.SERVING, release="r0001", instance="d", memory=JobMemory(facts=facts))


def readers(job: Registered, *rows: JobRow, sink: SinkDescription = FILES) -> Readers:
    return find_readers(job.installation, FleetIndex(number=1, started=0.0, rows=rows), JOB, {QUERY: sink})


@pytest.mark.parametrize(
    ("location", "reads"),
    [
        ("/out/totals", True),
        ("/out/totals/", True),
        ("/out/totals/v0001", True),
        ("/out/totals/v*/", True),
        ("file:///out/totals", True),
        ("/in,/out/totals/v0001", True),
        ("/out/totals-2", False),
        ("/out", False),
        ("/in", False),
        ("s3a://out/totals", False),
    ],
)
def test_a_source_at_or_below_the_output_counts_as_a_reader(job: Registered, location: str, reads: bool) -> None:
    """A source counts as a reader if its location is the output or lies below it; a location beside or above the output
    does not count.
    """
    found = readers(job, reading(job, "copies", location))
    assert [(each.job, each.query, each.reads) for each in found.found] == (
        [("copies", "copy", QUERY)] if reads else []
    )
    assert found.unknown == ()


def test_a_kafka_topic_named_like_the_output_is_not_a_reader(job: Registered) -> None:
    """A Kafka source whose topic has the same name as the output folder does not count as a reader."""
    assert readers(job, reading(job, "copies", "/out/totals", kind="kafka")).found == ()


def test_the_job_itself_and_forgotten_jobs_are_not_readers(job: Registered) -> None:
    """The job itself, forgotten jobs and jobs that never had a driver do not count as readers. Negative control: a
    running job does.
    """
    rows = [reading(job, name, "/out/totals", forgotten=name == "gone") for name in (JOB, "gone", "copies")]
    never = JobRow(job="never", standing=JobStatus.NOT_DEPLOYED, release="")
    assert [each.job for each in readers(job, *rows, never).found] == ["copies"]


def test_jobs_without_a_readable_description_are_reported_as_unknown(job: Registered) -> None:
    """Jobs whose description is missing or damaged are reported as unknown, and the other readers are found."""
    rows = [reading(job, name, "/out/totals") for name in ("copies", "damaged", "gone")]
    job.installation.store.replace("control/damaged/d/manifests.json", b"{")
    job.installation.store.delete("control/gone/d/manifests.json")
    found = readers(job, *rows)
    assert [each.job for each in found.found] == ["copies"]
    assert found.unknown[0].startswith("damaged: control/damaged/d/manifests.json")
    assert found.unknown[1] == "gone: the description by its driver no longer exists"


def test_jobs_above_the_limit_are_not_read_and_the_count_is_reported(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are more jobs than the limit, the rest is not read, and the result states how many of how many were
    checked.
    """
    monkeypatch.setattr(downstream, "MOST_JOBS", 1)
    found = readers(job, reading(job, "a", "/in"), reading(job, "b", "/out/totals"))
    assert found == Readers(unknown=("only the first 1 of 2 other jobs were checked",))


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        (
            SinkDescription(kind="table", output="sqlite:/db#totals", options={}),
            "the readers of sqlite:/db#totals, the output of query totals (table), are unknown, because only the"
            " locations of files are compared",
        ),
        (
            SinkDescription(kind="kafka", output="totals", options={}),
            "the readers of totals, the output of query totals (kafka), are unknown, because only the"
            " locations of files are compared",
        ),
        (
            SinkDescription(kind="file", output="***", options={}),
            "the readers of query totals are unknown, because the location of its output is a secret",
        ),
    ],
)
def test_readers_of_a_table_a_topic_or_a_secret_location_are_reported_as_unknown(
    job: Registered, sink: SinkDescription, told: str
) -> None:
    """For a table, a topic, which streaming sources do read, or an output whose location is a secret, the readers are
    reported as unknown.
    """
    assert readers(job, reading(job, "copies", "/out/totals"), sink=sink) == Readers(unknown=(told,))


def test_without_a_watch_pass_the_readers_are_reported_as_unknown(job: Registered) -> None:
    """Without a pass of the watch the readers are reported as unknown rather than as none."""
    (told,) = find_readers(job.installation, None, JOB, {QUERY: FILES}).unknown
    assert "the watch has made no pass" in told
