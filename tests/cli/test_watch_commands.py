"""Tests of ``watch``, ``incidents`` and ``jobs`` as a person types them."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from streamkeeper.cli.main import app
from streamkeeper.model.records.journal_records import DesiredChanged
from streamkeeper.model.watch.fleet_index import INDEX_KEY, FleetIndex
from streamkeeper.registry.fleet import write_index
from tests.operations.registered_job import JOB, Registered


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job that should run but has no driver; starting it would need its code, which is missing."""
    job = Registered(tmp_path)
    monkeypatch.setenv("STREAMKEEPER_HOME", job.installation.settings.home)
    monkeypatch.setenv("STREAMKEEPER_STORE", Path(job.installation.settings.store).as_uri())
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", job.installation.settings.checkpoints)
    monkeypatch.setenv("COLUMNS", "300")
    return job


def run(*words: str) -> Result:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 0, found.output
    return found


def test_a_dry_run_says_what_a_pass_would_do(job: Registered) -> None:
    """``watch --once --dry-run`` prints the incident that it would raise and the job that it would start, and records
    nothing.
    """
    told = run("watch", "--once", "--dry-run").output
    assert "would be raised page driver-dead of sales" in told
    assert "would start sales" in told
    assert run("incidents").output.startswith("no open incident in the last pass")


def test_a_dead_scheduler_is_noticed_from_outside(job: Registered) -> None:
    """``watch --overdue-s`` exits with 1 when there was no pass or only an old one. Negative control: it exits with 0
    after a recent pass.
    """

    def check() -> tuple[int, str]:
        found = CliRunner().invoke(app, ["watch", "--overdue-s", "180"])
        return found.exit_code, found.output

    assert check() == (1, f"no watch has made a pass over the jobs of {job.installation.store.url}\n")
    run("watch", "--once")
    index = msgspec.json.decode(job.installation.store.read(INDEX_KEY), type=FleetIndex)
    assert check()[0] == 0
    write_index(job.installation.store, replace(index, started=time.time() - 600, by="scheduler-1:7"))
    code, told = check()
    assert code == 1
    assert told.startswith(
        "the last pass of the watch, by scheduler-1:7, is 10 min old, and at most 3 min are allowed. "
    )


def test_a_pass_by_another_watch_does_not_hide_a_dead_scheduler(job: Registered) -> None:
    """A pass from a shell keeps the time of Airflow's last pass, so that an overdue Airflow is reported. Negative
    control: without a pass by Airflow on record it is not mentioned.
    """
    run("watch", "--once")
    assert "by Airflow" not in run("watch", "--overdue-s", "180").output
    index = msgspec.json.decode(job.installation.store.read(INDEX_KEY), type=FleetIndex)
    write_index(job.installation.store, replace(index, airflow_pass_at=time.time() - 600))
    run("watch", "--once")
    found = CliRunner().invoke(app, ["watch", "--overdue-s", "180"])
    assert found.exit_code == 1
    assert re.match(
        r"the last pass of the watch, by Airflow, is 10(\.\d)? min old, and at most 3 min are allowed\. ", found.output
    )
    told = r"Airflow made its last pass 10(\.\d)? min ago and sends no notices\. Check that Airflow runs"
    assert re.search(told, run("jobs").output)


def test_an_incident_is_shown_in_lists_job_history_and_json(job: Registered) -> None:
    """An incident appears in the list of all incidents, in its job's history of incidents with the runbook, and as
    JSON; ``jobs`` names it with the age of the observation.
    """
    run("watch", "--once")
    assert "driver-dead" in run("incidents").output
    story = run("incidents", JOB).output
    assert "page driver-dead raised: no process of op-candidate is left" in story
    assert "(runbook: Nothing serves)" in story
    assert "driver-dead/-: the watch" in story
    assert next(iter(json.loads(run("incidents", "--json").stdout)[0]["open"])) == "driver-dead/-"
    listed = run("jobs").output
    assert "page: driver-dead" in listed
    assert "observed by the watch" in listed
    assert "observed now" in run("jobs", "--now").output


def test_jobs_reads_the_store_if_the_last_pass_found_no_job(job: Registered) -> None:
    """``jobs`` reads the store itself when the watch's last pass found no job, so that a job deployed since is
    listed.
    """
    write_index(job.installation.store, FleetIndex(number=1, started=time.time(), installation=job.installation.id))
    shown = run("jobs").output
    assert "observed now" in shown
    assert JOB in shown


def test_jobs_reads_the_store_without_any_watch_pass(job: Registered) -> None:
    """``jobs`` works without any pass of the watch, and shows who stopped a job and why."""
    job.record(DesiredChanged(serve=False, requested_by="ann", reason="for the night"))
    assert "observed now" in run("jobs").output
    assert "stopped by ann: for the night" in run("jobs").output
    (row,) = json.loads(run("jobs", "--json").stdout)
    assert (row["standing"], row["wanted"], row["symptoms"]) == ("stopped", False, [])


def test_incidents_refuses_an_unknown_job_and_lists_existing_ones(job: Registered) -> None:
    """``incidents`` refuses an unknown job and lists the known ones."""
    found = CliRunner().invoke(app, ["incidents", "nope"])
    assert found.exit_code == 2
    assert "job nope is not known" in found.stderr
    assert "known jobs: sales" in found.stderr


def test_stray_or_damaged_incident_files_do_not_hide_other_incidents(job: Registered) -> None:
    """A stray file among the incidents is ignored; damaged incident records of one job are reported on stderr with exit
    code 1, and other jobs' incidents are still listed.
    """
    store = Path(job.installation.settings.store)
    folder = store / "incidents" / JOB
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("called the warehouse team")
    run("watch", "--once")
    assert "driver-dead" in run("incidents").output
    (store / "registry" / "other" / "journal").mkdir(parents=True)
    (store / "incidents" / "other").mkdir()
    (store / "incidents" / "other" / "0000000001.json").write_text("{")
    found = CliRunner().invoke(app, ["incidents"])
    assert found.exit_code == 1
    assert "driver-dead" in found.stdout
    assert "other: incidents/other/0000000001.json cannot be read: " in found.stderr


def test_incidents_names_records_that_cannot_be_read_and_exits_with_1(job: Registered) -> None:
    """``incidents`` names unreadable records and exits with 1, for all jobs and for one, without claiming that there
    are no incidents. Negative control: without that record it exits with 0.
    """
    run("incidents")
    job.installation.store.create(f"incidents/{JOB}/0000000001.json", b"{")
    job.installation.store.create("incidents/kept.bak/0000000001.json", b"{")
    for words in (["incidents"], ["incidents", JOB], ["incidents", "--json"], ["incidents", JOB, "--json"]):
        found = CliRunner().invoke(app, words)
        assert found.exit_code == 1, words
        assert f"incidents/{JOB}/0000000001.json cannot be read" in found.output
        assert "in the last pass of a watch" not in found.output
        assert "was ever raised" not in found.output
