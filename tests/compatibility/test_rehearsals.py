"""Tests of the findings about a rehearsal."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.effects import effect_of
from streamkeeper.compatibility.rehearsals import explained_by, rehearsal_failed, rehearsed_without_rows, with_cause
from streamkeeper.compatibility.rule import NEW_CHECKPOINT
from streamkeeper.errors import OutputUnfit
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict
from tests.compatibility.manifests import STATEFUL


@pytest.mark.parametrize(
    ("error_class", "severity", "rule"),
    [
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", Severity.BREAKING, "refused-by-spark"),
        ("OutputUnfit", Severity.BREAKING, "output-does-not-fit"),
        ("DIVIDE_BY_ZERO", Severity.FATAL, "fails-on-the-last-batch"),
    ],
)
def test_refused_state_is_breaking_and_a_failing_query_is_fatal(error_class, severity, rule) -> None:
    """State that Spark refuses and a table that does not fit are breaking; a query that fails by itself is fatal."""
    found = rehearsal_failed(error_class, "told", 3, again=True)
    assert (found.severity, found.rule) == (severity, rule)


def test_only_a_failed_rerun_states_that_the_batch_succeeded_before() -> None:
    """Only a failed rerun of a committed batch states that the batch succeeded with the deployed release; a later batch
    and a failed copy do not.
    """
    again = rehearsal_failed("DIVIDE_BY_ZERO", "told", 3, again=True)
    after = rehearsal_failed("DIVIDE_BY_ZERO", "told", 3, again=False)
    none = rehearsal_failed("CHECKPOINT_NOT_CLONED", "told", None, again=False)
    said = "batch 3 succeeded with the deployed release and fails with the candidate: DIVIDE_BY_ZERO: told"
    assert again.evidence == said
    assert (after.where, after.evidence) == ("rehearsal from batch 3", "DIVIDE_BY_ZERO: told")
    assert (none.where, none.evidence) == ("rehearsal", "CHECKPOINT_NOT_CLONED: told")


def test_a_new_query_whose_output_does_not_fit_gets_the_remedy_of_the_output() -> None:
    """A query without a batch whose existing output does not fit gets the output's own remedy, because it has no
    checkpoint version that it could leave; a query with a batch gets a new version.
    """
    new = rehearsal_failed("OutputUnfit", "told", None, again=False, hint=OutputUnfit.REMEDY)
    old = rehearsal_failed("OutputUnfit", "told", 3, again=True, hint=OutputUnfit.REMEDY)
    assert (new.hint, old.hint) == (OutputUnfit.REMEDY, NEW_CHECKPOINT)


def test_a_job_error_that_resembles_one_of_spark_is_fatal() -> None:
    """An error of the job's function is fatal although its message resembles one of Spark's. Negative control: Spark's
    own error with these words is a refusal by Spark.
    """
    words = "ValueError: customer 5 doesn't exist"
    assert rehearsal_failed("PYTHON_EXCEPTION", words, 3, again=True).rule == "fails-on-the-last-batch"
    assert rehearsal_failed("IllegalStateException", "batch 3 doesn't exist", 3, again=True).rule == "refused-by-spark"


def test_a_crash_inside_spark_is_breaking_if_another_finding_explains_it() -> None:
    """A NullPointerException inside Spark is breaking if another breaking finding explains it; without one, or for
    errors of the query itself, the finding stays fatal.
    """
    crashed = rehearsal_failed("NullPointerException", "None", 2, again=True)
    assert (crashed.rule, crashed.severity) == ("fails-inside-spark", Severity.FATAL)
    other = msgspec.structs.replace(crashed, rule="grouping-key-changed", severity=Severity.BREAKING)
    assert explained_by([other], crashed).severity is Severity.BREAKING
    # Without a finding that explains it, and where it is an error of Spark's or of a function, it stays fatal.
    assert explained_by([], crashed) == crashed
    assert explained_by([msgspec.structs.replace(other, severity=Severity.NOTE)], crashed) == crashed
    for error_class in ("DIVIDE_BY_ZERO", "PYTHON_EXCEPTION"):
        failed = rehearsal_failed(error_class, "told", 2, again=True)
        assert explained_by([other], failed) == failed


def cause(rule: str, evidence: str, severity: Severity = Severity.BREAKING, line: str = "") -> Finding:
    """Return a finding about the manifests."""
    return Finding(rule=rule, severity=severity, where="aggregation", evidence=evidence, line=line)


def test_a_refusal_names_the_change_before_sparks_condition() -> None:
    """A refusal by Spark names at most two changes as its cause, those of the state's form first, before Spark's error;
    changes to the output and notes are not named.
    """
    refused = rehearsal_failed("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "told", 3, again=True)
    findings = [
        cause("sink-key-redefined", "o"),
        cause("source-column-type-changed", "type of column x: `s`"),
        cause("grouping-key-changed", "k"),
        cause("grouping-key-added", "`a`", line="job.py:7"),
        cause("stateless-change", "n", Severity.NOTE),
    ]
    found = with_cause(findings, refused)
    told = "grouping key added in aggregation: `a`; aggregation: type of column x: `s`"
    assert (found.evidence, found.line) == (f"{told} ({refused.evidence})", "job.py:7")
    assert msgspec.structs.replace(found, evidence=refused.evidence, line="") == refused
    # Nothing is claimed without a finding, and findings of other rules stay.
    assert with_cause([], refused) == refused
    assert with_cause(findings, findings[0]) == findings[0]


def test_a_failed_batch_names_the_changed_code() -> None:
    """A failed batch names the changed code as its cause, not code that is proven to be equivalent."""
    failed = rehearsal_failed("PYTHON_EXCEPTION", "told", 3, again=True)
    code = cause("code-in-state-changed", "`c`", Severity.OPAQUE)
    same = cause("code-rewritten-equally", "r", Severity.NOTE)
    found = with_cause([cause("grouping-key-changed", "k"), same, code], failed)
    assert found.evidence == f"code in state changed in aggregation: `c` ({failed.evidence})"


def test_a_crash_inside_spark_gives_switch_with_a_changed_output_mode() -> None:
    """A crash inside Spark gives REFUSE for an unchanged query, and SWITCH together with a changed output mode."""
    crashed = rehearsal_failed("NullPointerException", "None", 2, again=True)
    changed = msgspec.structs.replace(STATEFUL, output_mode="append")
    same = assess({"q": STATEFUL}, {"q": STATEFUL}, {"q": [crashed]})
    both = assess({"q": STATEFUL}, {"q": changed}, {"q": [crashed]})
    assert (same.verdict, both.verdict) == (Verdict.REFUSE, Verdict.SWITCH)


def test_a_rehearsal_without_rows_is_a_note() -> None:
    """A rehearsal without rows is a note, and its effect mentions the functions that it did not run."""
    found = rehearsed_without_rows(7, searched=20)
    assert (found.severity, found.where) == (Severity.NOTE, "rehearsal of batch 7")
    assert "functions" in effect_of(found.rule, found.severity)


def test_a_python_worker_that_starts_too_late_is_opaque() -> None:
    """A Python worker that starts too late on an overloaded machine is opaque. Negative control: any other socket
    timeout stays a fatal failure.
    """
    late = "Timed out while waiting for the Python worker to connect back"
    found = rehearsal_failed("SocketTimeoutException", late, 2, again=True)
    assert (found.rule, found.severity) == ("rehearsal-timed-out", Severity.OPAQUE)
    other = rehearsal_failed("SocketTimeoutException", "Read timed out", 2, again=True)
    assert (other.rule, other.severity) == ("fails-on-the-last-batch", Severity.FATAL)
