"""How often an operation reads the whole journal; on an object store each entry costs a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.cutover_snapshots import take_cutover_snapshots
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.starting import open_start
from streamkeeper.operations.deploys.stopping import stop_job
from tests.operations.registered_job import JOB, QUERY, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job that was deployed once."""
    return Registered(tmp_path)


@pytest.fixture
def reads(job: Registered, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list with one item for each read of the journal's first entry."""
    found: list[str] = []
    read = job.installation.store.read

    def count(key: str) -> bytes:
        found.extend([key] if key == entry_key(JOB, 1) else [])
        return read(key)

    monkeypatch.setattr(job.installation.store, "read", count)
    return found


def test_a_deploy_reads_the_journal_once(job: Registered, reads: list[str]) -> None:
    """A deploy reads the journal once for its checks, its record and its first plan."""
    Deploy.open(job.installation, "op2", DeployRequest(job=JOB, release="r0001")).plan()
    assert len(reads) == 1


def test_a_start_reads_the_journal_once_for_itself_and_once_for_its_deploy(job: Registered, reads: list[str]) -> None:
    """A start reads the journal twice, once for itself and once for its deploy, because the deploy writes under its own
    name.
    """
    assert open_start(job.installation, JOB, requested_by="bob", reason="done", operation="start") is not None
    assert len(reads) == 2


def test_a_stop_reads_the_journal_once(job: Registered, reads: list[str]) -> None:
    """A stop reads the journal once in total."""
    job.runner.life = Life.DEAD
    stop_job(job.installation, JOB, requested_by="bob", reason="maintenance", operation="stop")
    assert len(reads) == 1


def test_the_snapshots_of_a_cutover_read_the_journal_once(job: Registered, reads: list[str]) -> None:
    """Taking the snapshots of a cutover reads the journal once for all queries."""
    found = take_cutover_snapshots(job.installation, JOB, "op", {QUERY: 6, "gone": 1, "lost": 1})
    assert (set(found.taken), set(found.failed), len(reads)) == ({QUERY}, {"gone", "lost"}, 1)
