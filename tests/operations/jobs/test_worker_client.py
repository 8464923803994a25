"""Asking a short-lived driver process."""

from __future__ import annotations

import pytest

from streamkeeper.errors import TemporaryError
from streamkeeper.operations.backups import exporting
from streamkeeper.operations.jobs.worker_client import DriverDied, ask_driver


def test_a_driver_that_was_killed_is_told_from_one_that_refused() -> None:
    """A signal says nothing of what was asked: the same question may be answered later."""
    with pytest.raises(DriverDied) as died:
        list(ask_driver("tests.operations.dying_driver", [b"{}"], {}, {}))
    assert (died.value.killed, died.value.refused) == (True, False)
    with pytest.raises(DriverDied) as refused:
        list(ask_driver("tests.operations.no_such_module", [b"{}"], {}, {}))
    assert not refused.value.killed


def test_a_killed_export_may_be_tried_again(tmp_path, monkeypatch) -> None:
    """A worker that is shut down during a backup does not refuse the deploy."""
    monkeypatch.setattr(exporting, "_MODULE", "tests.operations.dying_driver")
    with pytest.raises(TemporaryError, match="was killed"):
        exporting.export_state(tmp_path, tmp_path / "out")
