"""Input files that Spark ignores because they are too old: the command lists them, and every estimate of a replay or
rebuild names them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from streamkeeper.cli.main import app
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.operations.deploys.assessing import told_cost
from streamkeeper.operations.jobs import old_input
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from tests.compatibility.manifests import STATEFUL, with_source
from tests.operations import registered_job
from tests.operations.deploys.test_blast_radius import FORWARD, deployed, told
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.installed import install

NOW_S, DAY_S = 1_795_000_000, 86_400


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job that has read 30-day-old files up to batch 7, of which a snapshot exists, and a present file in batch 8."""
    monkeypatch.setattr(registered_job, "STATEFUL", with_source(STATEFUL, location=str(tmp_path / "in"), options={}))
    job = install(tmp_path, monkeypatch)
    (tmp_path / "in").mkdir()
    for batch in range(9):
        if batch == 8:
            move(job, 7, NOW_S - 30 * DAY_S)
            deployed(job, replace(FORWARD, back=Transition.RESTORE), snapshot=job.take())
            job.commit(8)
            move(job, 8, NOW_S)
        put(tmp_path / "in" / f"f{batch}.json", NOW_S if batch == 8 else NOW_S - 30 * DAY_S)
    job.report(committed=8)
    job.write_table(8)
    return job


def put(path: Path, at: int) -> None:
    path.write_text("{}")
    os.utime(path, (at, at))


def move(job: Registered, last: int, at: int) -> None:
    """Rewrite the source log up to batch ``last``, or of batch 8 alone, to name files in the input directory with this
    time.
    """
    folder = Path(job.installation.settings.checkpoints).parent / "in"
    for entry in range(8, 9) if last == 8 else range(last + 1):
        log = job.directory / "sources" / "0" / str(entry)
        text = log.read_text().replace("file:///in", folder.as_uri())
        log.write_text(text.replace('"timestamp": 1,', f'"timestamp": {at * 1000},'))


def test_files_that_are_too_old_are_listed_and_counted_in_the_estimates(job: Registered, tmp_path: Path) -> None:
    """A file of 20 days ago counts in the estimates of a replay and of a rebuild, one of 40 days ago only in that of a
    rebuild; both are listed, and a new file is not.
    """
    twenty, forty = tmp_path / "in" / "late 20.json", tmp_path / "in" / "late 40.json"
    put(twenty, NOW_S - 20 * DAY_S)
    put(forty, NOW_S - 40 * DAY_S)
    put(tmp_path / "in" / "waits.json", NOW_S)
    listed = CliRunner().invoke(app, ["old-input", JOB])
    assert (listed.exit_code, listed.output.splitlines()) == (0, [str(twenty), str(forty)])
    replays = "1 file and 1 file that was too old to be read so far"
    found = diagnose_job(job.installation, JOB, chosen=[QUERY])
    assert f"({replays})" in found.option(RecoveryAction.RESTORE).prices[0].read
    rebuilt = "9 files and 2 files that were too old to be read so far"
    assert found.option(RecoveryAction.REBUILD).prices[0].read == rebuilt
    assert f"1 batch ({replays}) to be read and written again" in told(job)[QUERY]
    way = QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002")
    again = told_cost(job.installation, state_of(job), QUERY, way, {})
    assert again.startswith("reads 9 files again and 2 files that were too old to be read so far;")


def test_without_the_search_for_old_files_the_estimates_name_none(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the search for old files the estimate equals that of a job without any."""
    clean = diagnose_job(job.installation, JOB, chosen=[QUERY]).option(RecoveryAction.REBUILD).prices[0].read
    put(Path(job.installation.settings.checkpoints).parent / "in" / "late.json", NOW_S - 20 * DAY_S)
    monkeypatch.setattr(old_input, "_looks", lambda *_, **__: iter(()))
    assert diagnose_job(job.installation, JOB, chosen=[QUERY]).option(RecoveryAction.REBUILD).prices[0].read == clean
    assert clean == "9 files"


def test_a_file_that_another_query_has_read_is_not_in_the_list(
    job: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that a different query has read is not listed, because a new modification time would make that query read
    it a second time; the reason is printed.
    """
    late, read = tmp_path / "in" / "late.json", tmp_path / "in" / "read.json"
    for path in (late, read):
        put(path, NOW_S - 20 * DAY_S)
    other = job.directory.parent.parent / "copies" / "v0001"
    shutil.copytree(job.directory, other)
    log = other / "sources" / "0" / "8"
    log.write_text(log.read_text() + log.read_text().removeprefix("v1").replace("f8.json", "read.json"))
    job.record(replace(job.version("v0001"), query="copies"))
    job.record(replace(job.epoch("v0001", 1), query="copies"))
    manifests = dict.fromkeys((QUERY, "copies"), stored_manifests(job.installation, state_of(job), "r0002")[QUERY])
    monkeypatch.setattr(old_input, "stored_manifests", lambda *_: manifests)
    listed = CliRunner().invoke(app, ["old-input", JOB])
    assert listed.stdout.splitlines() == [str(late)]
    assert listed.stderr.splitlines() == [f"{read}: query copies has read it"]


def state_of(job: Registered) -> JobState:
    return job.installation.journal(JOB, "test").state()
