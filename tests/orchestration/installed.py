"""An installation with one deployed job and its checkpoint, which the tasks find through the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.records.journal_records import CheckpointVersionCreated
from streamkeeper.operations.jobs.installation import Installation
from tests.operations.backups.test_snapshots import JOB, QUERY, Registered

SERIES = f"{JOB}/{QUERY}"


def install(root: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """Install the job ``sales`` with the query ``totals`` and eight committed batches."""
    job = Registered(root)
    monkeypatch.setenv("STREAMKEEPER_HOME", job.installation.settings.home)
    monkeypatch.setenv("STREAMKEEPER_STORE", Path(root / "store").as_uri())
    monkeypatch.setenv("STREAMKEEPER_CHECKPOINTS", job.installation.settings.checkpoints)
    return job


def add_lost_job(job: Registered) -> str:
    """Add a job whose checkpoint directory is missing, and return its series."""
    record = CheckpointVersionCreated(query="q", version="v0001", release="r0001", origin="fresh", state_format="x")
    job.installation.journal("lost", "test").append(lambda _: record)
    return "lost/q"


def add_job_without_commits(site: Installation, job: str) -> str:
    """Add a job whose checkpoint contains no batch yet, and return its series."""
    record = CheckpointVersionCreated(query="q", version="v0001", release="r0001", origin="fresh", state_format="x")
    (Path(site.settings.checkpoints) / job / "q" / "v0001").mkdir(parents=True)
    site.journal(job, "test").append(lambda _: record)
    return f"{job}/q"
