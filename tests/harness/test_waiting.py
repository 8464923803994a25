"""Tests waiting for a condition: the result is the answer itself, or an error that names what did not happen."""

from __future__ import annotations

import pytest

from harness.waiting import wait_for, wait_until


def test_waiting_returns_the_first_true_answer() -> None:
    """Waiting returns the first true answer and does not query again."""
    answers = iter([0, None, "", 7, 8])
    assert wait_for("an answer", lambda: next(answers), 5) == 7
    assert next(answers) == 8


def test_the_timeout_error_names_the_awaited_condition_and_the_duration() -> None:
    """The timeout error names what was awaited and for how long."""
    with pytest.raises(TimeoutError, match=r"rain: not within 0\.05 s"):
        wait_for("rain", lambda: False, 0.05)


def test_wait_until_returns_false_after_a_timeout_and_true_on_success() -> None:
    """``wait_until`` returns False when the time is over, and True as soon as the condition holds."""
    assert not wait_until(lambda: False, timeout_s=0.05, poll_s=0.01)
    assert wait_until(lambda: True, timeout_s=0.0)
