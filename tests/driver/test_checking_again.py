"""Tests of when a further request of a check session may reuse the description of the deployed job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.authoring import job_code
from streamkeeper.driver import check_session
from streamkeeper.driver.check_session import Checker
from streamkeeper.model.protocol.check_messages import CheckRequest, JobFile

SPARK: Any = None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle of code and data, beside files that are not part of it."""
    for name in ("job.py", "rates.json", "sql/totals.sql", "conf/job.yaml", *ELSEWHERE):
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    return tmp_path / "bundle"


ELSEWHERE = (
    ".venv/pyvenv.cfg",
    ".venv/lib/site.py",
    "own_env/pyvenv.cfg",
    "own_env/lib/site.py",
    ".git/index",
    "__pycache__/job.cpython-311.pyc",
    ".hidden/notes.py",
)


@pytest.fixture
def builds(root: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A function that requests the deployed job once more, and returns how often it has been built so far."""
    built: list[JobFile] = []

    def build(spark: object, job: JobFile, *more: object) -> dict[str, object]:
        built.append(job)
        return {}

    monkeypatch.setattr(check_session, "build_job", build)
    checker = Checker(SPARK, root, {})
    job = JobFile(root=str(root), entry="job.py", name="totals", params={})

    def ask() -> int:
        checker._deployed(CheckRequest(candidate=job, deployed=job, checkpoints={}), {})
        return len(built)

    return ask


@pytest.mark.parametrize("name", ["job.py", "rates.json", "sql/totals.sql", "conf/job.yaml", "new.csv"])
def test_any_changed_file_of_the_bundle_causes_a_rebuild_of_the_job(
    root: Path, builds: Callable[[], int], name: str
) -> None:
    """The deployed job is rebuilt after any file of its bundle has changed, code or data; only the content counts and
    not the file's time.
    """
    assert [builds(), builds()] == [1, 1]
    (root / name).write_text("after!")
    os.utime(root / "job.py", (1, 1))
    assert [builds(), builds()] == [2, 2]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_no_part_of_the_bundle_does_not_count(root: Path, builds: Callable[[], int], name: str) -> None:
    """Changed files in virtual environments, caches and hidden folders do not make the job be rebuilt."""
    assert builds() == 1
    (root / name).write_text("after!")
    assert builds() == 1


def test_environments_and_hidden_folders_are_not_walked(
    root: Path, builds: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Virtual environments and hidden folders, which may hold 100,000 files, are not walked."""
    entered: list[str] = []
    walk = os.walk

    def noted(*given: Any, **options: Any) -> Iterator[Any]:
        for found in walk(*given, **options):
            entered.append(os.path.relpath(found[0], root))
            yield found

    monkeypatch.setattr(job_code.os, "walk", noted)
    builds()
    assert sorted(entered) == [".", "conf", "sql"]


def test_the_job_of_a_bundle_too_large_to_compare_is_always_rebuilt(
    builds: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle with too many files to compare counts as changed, and its job is built for every request."""
    monkeypatch.setattr(job_code, "_MOST_FILES", 1)
    assert [builds(), builds()] == [1, 2]
