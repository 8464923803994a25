"""Tests of requests to the compatibility check that are refused before anything is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamkeeper.driver import check_session
from streamkeeper.model.protocol.check_messages import CheckRequest, JobFile


def test_a_request_that_names_no_deployed_job_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check request without a deployed job, neither as a file nor as stored manifests, is answered with an error and
    no assessment.
    """
    monkeypatch.setattr(check_session, "end_python_workers", lambda _: None)
    unused: Any = None
    checker = check_session.Checker(unused, tmp_path, {})
    candidate = JobFile(root=str(tmp_path), entry="job.py", name="sales")
    answer = checker.answer(CheckRequest(candidate=candidate, checkpoints={}))
    assert answer.assessment is None
    assert answer.error.startswith("no deployed job is given to compare with")
