"""What a rehearsal says, as findings."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.observations import rehearsal_failed
from streamkeeper.model.finding import Severity


@pytest.mark.parametrize(
    ("error_class", "severity", "rule"),
    [
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", Severity.BREAKING, "refused-by-spark"),
        ("OutputUnfit", Severity.BREAKING, "output-does-not-fit"),
        ("DIVIDE_BY_ZERO", Severity.FATAL, "fails-on-the-last-batch"),
    ],
)
def test_what_a_new_version_would_mend_is_told_from_what_fails_anywhere(error_class, severity, rule) -> None:
    """State that Spark refuses and a table of another shape ask for a switch; a query that fails asks to be mended."""
    found = rehearsal_failed(error_class, "told", 3, again=True)
    assert (found.severity, found.rule) == (severity, rule)


def test_that_a_batch_ran_is_said_only_of_the_one_that_was_run_again() -> None:
    """A copy that could not be made, and a batch that is the next one, ran nowhere before."""
    again = rehearsal_failed("DIVIDE_BY_ZERO", "told", 3, again=True)
    after = rehearsal_failed("DIVIDE_BY_ZERO", "told", 3, again=False)
    none = rehearsal_failed("CHECKPOINT_NOT_CLONED", "told", None, again=False)
    assert again.evidence == "batch 3 ran as deployed -> DIVIDE_BY_ZERO: told"
    assert (after.where, after.evidence) == ("rehearsal from batch 3", "DIVIDE_BY_ZERO: told")
    assert (none.where, none.evidence) == ("rehearsal", "CHECKPOINT_NOT_CLONED: told")


def test_words_of_the_jobs_own_function_are_not_taken_for_sparks() -> None:
    """A function that fails would fail on a new checkpoint version as well; negative control: Spark's own error."""
    words = "ValueError: customer 5 doesn't exist"
    assert rehearsal_failed("PYTHON_EXCEPTION", words, 3, again=True).rule == "fails-on-the-last-batch"
    assert rehearsal_failed("IllegalStateException", "batch 3 doesn't exist", 3, again=True).rule == "refused-by-spark"
