"""Requests to a short-lived driver process."""

from __future__ import annotations

import pytest

from streamkeeper.errors import TemporaryError
from streamkeeper.operations.backups import exporting
from streamkeeper.operations.jobs.worker_client import DriverDied, ask_driver


def test_a_killed_driver_is_distinguished_from_one_that_could_not_run() -> None:
    """A driver that was killed by a signal is distinguished from one that could not run, because the same request may
    succeed later.
    """
    with pytest.raises(DriverDied) as died:
        list(ask_driver("tests.operations.dying_driver", [b"{}"], {}, {}))
    assert (died.value.killed, died.value.refused) == (True, False)
    with pytest.raises(DriverDied) as refused:
        list(ask_driver("tests.operations.no_such_module", [b"{}"], {}, {}))
    assert not refused.value.killed


def test_a_killed_export_may_be_tried_again(tmp_path, monkeypatch) -> None:
    """An export whose process was killed raises a temporary error, so that a worker's shutdown does not refuse the
    deploy.
    """
    monkeypatch.setattr(exporting, "_MODULE", "tests.operations.dying_driver")
    with pytest.raises(TemporaryError, match="was killed"):
        exporting.export_state(tmp_path, tmp_path / "out")
