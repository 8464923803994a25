"""Tests what a standby reports of its rehearsals."""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.driver.warm_up import warm_up


@pytest.mark.parametrize(
    ("rehearsed", "told"),
    [
        (("ok: batch 4 in 1 s", "ok: batch 9 in 2 s"), "ok: batch 4 in 1 s; ok: batch 9 in 2 s"),
        (("ok: batch 4 in 1 s", "OutOfMemoryError: heap"), "OutOfMemoryError: heap"),
        (("TypeError: a", "OutOfMemoryError: heap"), "TypeError: a; OutOfMemoryError: heap"),
    ],
)
def test_a_failed_rehearsal_is_never_hidden_behind_one_that_succeeded(rehearsed: tuple[str, str], told: str) -> None:
    """If any rehearsal failed, only the failures are reported; queries that were already rehearsed are not rehearsed a
    second time.
    """
    unused: Any = None
    results = dict(zip(("totals", "copy"), rehearsed, strict=True))
    assert warm_up(unused, dict.fromkeys(results, unused), {}, "", results) == told
