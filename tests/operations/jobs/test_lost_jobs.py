"""A job whose journal is lost: its remaining records identify it in every list, and no command starts it from
scratch.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamkeeper.cli.main import app
from streamkeeper.errors import JournalLost, NotFound
from streamkeeper.model.records.journal_records import DesiredChanged, JobForgotten
from streamkeeper.model.requests.diagnosis import Problem
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.watch.health import Urgency
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.release_registration import push_release
from streamkeeper.operations.fleet import fleet_look
from streamkeeper.operations.fleet.watching import PassReport, WatchPass, run_pass
from streamkeeper.operations.jobs.carriers import note_carrier, this_process
from streamkeeper.operations.jobs.lost_jobs import find_lost_jobs
from streamkeeper.operations.jobs.observation import recorded_jobs
from streamkeeper.operations.jobs.overview import job_overview
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.registry.fleet import read_index
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.registry.installations import open_installation
from tests.operations.registered_job import JOB, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A stopped job without any fault; each test adds its own."""
    job = Registered(tmp_path)
    job.record(DesiredChanged(serve=False, requested_by="ann", reason="a test"))
    return job


def passed(job: Registered) -> PassReport:
    return run_pass(WatchPass(installation=job.installation))


def store_of(job: Registered) -> Path:
    return Path(job.installation.settings.store)


def lose(job: Registered) -> None:
    (store_of(job) / "registry" / JOB).rename(store_of(job).with_name("moved"))


def put_back(job: Registered) -> None:
    store_of(job).with_name("moved").rename(store_of(job) / "registry" / JOB)


def test_a_job_without_its_journal_is_paged_and_listed(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose journal is lost is paged with the command to rebuild it and appears in every list; the incident is
    cleared once the journal is back, and not earlier.
    """
    record = open_installation(job.installation.store, job.installation.settings.home)
    job.installation = dataclasses.replace(job.installation, record=record)
    passed(job)
    lose(job)
    for _ in range(3):
        (row,) = passed(job).index.rows
        assert [(each.rule, each.severity) for each in row.symptoms] == [("journal-lost", Urgency.PAGE)]
        assert "registry rebuild sales" in row.symptoms[0].action
        assert (row.job, row.release, row.standing.value) == (JOB, "r0001", "unknown")
    assert set(IncidentLog(job.installation.store, JOB).state().open) == {"journal-lost/-"}
    for name, place in (("HOME", job.installation.settings.home), ("STORE", job.installation.settings.store)):
        monkeypatch.setenv(f"STREAMKEEPER_{name}", place)
    for words in (["jobs"], ["jobs", "--now"], ["incidents"], ["incidents", JOB]):
        told = CliRunner().invoke(app, words)
        assert (told.exit_code, "journal-lost" in told.output) == (0, True), (words, told.output)
    put_back(job)
    (row,) = passed(job).index.rows
    assert "journal-lost" not in [each.rule for each in row.symptoms]
    assert IncidentLog(job.installation.store, JOB).state().open.keys().isdisjoint({"journal-lost/-"})


@pytest.mark.parametrize("left", ["index", "control", "incidents", "carriers"])
def test_a_job_with_a_lost_journal_is_identified_by_any_remaining_record(job: Registered, left: str) -> None:
    """The index, the driver's records, an incident or a carrier alone identifies a job whose journal is lost; an empty
    folder identifies none.
    """
    if left == "index":
        passed(job)
    if left == "control":
        job.report(committed=7)
    if left == "incidents":
        job.installation.store.create(f"incidents/{JOB}/0000000001.json", b"{}")
    if left == "carriers":
        note_carrier(job.installation.store, JOB, "op", this_process())
    (store_of(job) / "control" / "nobody").mkdir(parents=True)
    lose(job)
    found = fleet_look.look_at_fleet(job.installation, read_index(job.installation.store, ""), now=1e9, whole=False)
    assert [(seen.job, bool(seen.lost)) for seen in found] == [(JOB, True)]
    with pytest.raises(JournalLost, match="registry rebuild sales"):
        job_overview(job.installation, JOB)


def test_a_job_first_deployed_during_a_pass_is_not_reported_as_lost(job: Registered) -> None:
    """A job that is first deployed after a pass has listed the jobs is not reported as lost, because its journal exists
    before its driver's records. Negative control: without the journal it is.
    """
    job.report(committed=7)
    assert find_lost_jobs(job.installation, [], {}) == {}
    lose(job)
    assert set(find_lost_jobs(job.installation, [], {})) == {JOB}


def test_a_job_whose_journal_was_deleted_from_its_folder_is_lost(job: Registered) -> None:
    """A job whose journal was deleted while its other registry files remain is reported as lost."""
    passed(job)
    shutil.rmtree(store_of(job) / "registry" / JOB / "journal")
    (row,) = passed(job).index.rows
    assert [each.rule for each in row.symptoms] == ["journal-lost"]


def test_without_the_search_for_lost_jobs_the_job_is_in_no_list(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the search for lost jobs, the job appears in no list and nothing is reported."""
    passed(job)
    lose(job)
    monkeypatch.setattr(fleet_look, "find_lost_jobs", lambda *_: {})
    index = passed(job).index
    assert (index.rows, recorded_jobs(job.installation)) == ((), [])


def test_incidents_opened_before_the_journal_was_lost_stay_open(job: Registered) -> None:
    """Incidents that were open before the journal was lost stay open, because the job can no longer be checked."""
    job.record(DesiredChanged(serve=True, requested_by="ann", reason="a test"))
    run_pass(WatchPass(installation=job.installation, acts=False))
    before = set(IncidentLog(job.installation.store, JOB).state().open)
    assert before
    lose(job)
    passed(job)
    assert set(IncidentLog(job.installation.store, JOB).state().open) == before | {"journal-lost/-"}


def test_a_deploy_or_push_of_a_job_with_a_lost_journal_is_refused(job: Registered, tmp_path: Path) -> None:
    """A deploy or a push of a job whose journal is lost is refused, because it would create a first entry and read all
    input a second time; the diagnosis offers no action.
    """
    job.report(committed=7)
    lose(job)
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, [option.possible for option in found.options]) == (Problem.JOURNAL_LOST, [False] * 4)
    with pytest.raises(JournalLost, match="the journal of job sales is lost"):
        Deploy.open(job.installation, "op9", DeployRequest(job=JOB))
    (tmp_path / "jobs").mkdir()
    with pytest.raises(JournalLost):
        push_release(job.installation, JOB, params={}, conf={})
    assert recorded_jobs(job.installation) == []


def test_a_lost_job_without_any_records_is_no_longer_paged(job: Registered) -> None:
    """Once the other records of the job are removed too, the job is unknown and no longer paged; a forgotten job is
    never paged.
    """
    passed(job)
    lose(job)
    passed(job)
    for folder in ("control", "incidents", "carriers"):
        shutil.rmtree(store_of(job) / folder / JOB, ignore_errors=True)
    assert passed(job).index.rows == ()
    with pytest.raises(NotFound, match="is not known"):
        job_overview(job.installation, JOB)
    put_back(job)
    job.record(JobForgotten(requested_by="ann", reason="gone"))
    passed(job)
    lose(job)
    assert [row.symptoms for row in passed(job).index.rows] in ([], [()])
