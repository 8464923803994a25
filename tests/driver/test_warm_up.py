"""Tests what a standby reports of its rehearsals, and the findings about them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from streamkeeper.driver.warm_up import _findings_of, rehearse_query, warm_up
from streamkeeper.errors import InvalidInput, OutputOutOfReach, StoreUnavailable
from streamkeeper.inspection import rehearsal
from streamkeeper.inspection.rehearsal import Rehearsal
from streamkeeper.model.manifests.finding import Finding, Severity


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


def test_the_text_about_a_failed_rehearsal_keeps_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short text about a rehearsal that the sink refused has its message, its remedy and the query's name."""
    failed = Rehearsal(ok=False, batch=3, error_class="InvalidInput", message="no topic", seconds=1, hint="create it")
    monkeypatch.setattr(rehearsal, "rehearse", lambda *_, **__: failed)
    unused: Any = None
    query: Any = SimpleNamespace(name="totals")
    told, _ = rehearse_query(unused, query, unused, "", timeout_s=1)
    assert told == "InvalidInput: no topic (create it) (query totals)"


def finding(error: Exception | None, hint: str = "") -> Finding:
    """Return the finding about a rehearsal that failed in batch 3 with this error of the sink."""
    failed = Rehearsal(
        ok=False, batch=3, error_class="E", message="told", seconds=1, again=True, hint=hint, error=error
    )
    (found,) = _findings_of(failed)
    return found


@pytest.mark.parametrize(
    "error",
    [
        OutputOutOfReach("Kafka at a:9092 does not answer"),
        StoreUnavailable("s3://out does not answer"),
        ConnectionRefusedError(111, "refused"),
        sa.exc.OperationalError("SELECT 1", {}, ConnectionRefusedError(111, "refused")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_output_that_does_not_answer_is_no_fault_of_the_candidate(error: Exception) -> None:
    """An output of any kind that does not answer in a rehearsal refuses the deploy with the remedy of the error or the
    advice to try again, and not with the advice to fix the candidate. Negative control: any other error.
    """
    found = finding(error)
    assert (found.rule, found.severity) == ("sink-out-of-reach", Severity.FATAL)
    assert found.hint == "try again when the output answers"
    assert finding(error, "start the brokers").hint == "start the brokers"
    other = finding(ValueError("bad row"))
    assert (other.rule, "fix the candidate" in other.hint) == ("fails-on-the-last-batch", True)


def test_a_refusal_by_the_sink_names_the_remedy_of_the_sink() -> None:
    """A sink's refusal, such as of a missing topic, has the sink's own remedy as its hint."""
    found = finding(InvalidInput("topic totals does not exist"), "create the topic")
    assert (found.rule, found.severity, found.hint) == ("fails-on-the-last-batch", Severity.FATAL, "create the topic")
