"""Turns the outcome of a rehearsal into findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from streamkeeper.compatibility.rule import APPROVE, NEW_CHECKPOINT
from streamkeeper.errors import OutputUnfit
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.sources.known_sources import LOST_CONDITIONS

_STATE_OR_OFFSETS = (
    "STATE_STORE_",
    "STATE_DATA_SOURCE",
    "STREAMING_STATEFUL_OPERATOR",
    "CANNOT_LOAD_STATE_STORE",
    "CANNOT_WRITE_STATE_STORE",
    "CHECKPOINT_",
    *LOST_CONDITIONS,
    "STREAMING_SOURCE",
    "INCOMPATIBLE_",
    "StateSchema",
    "StateStore",
)
_SENTENCES = (
    "sources in the checkpoint offsets",
    "Wrong basePath",
    "For input string",
    "Expected e.g.",
    "state format",
    "doesn't exist",
)
"""Messages by which Spark rejects state or offsets without an error class."""
_OF_PYTHON = "PYTHON_EXCEPTION"
"""An error of the job's own function; its message may contain any text."""

FAILS_INSIDE_SPARK = "fails-inside-spark"
_OF_SPARKS_CODE = re.compile(r"(?:Null|ClassCast|ArrayIndex|NegativeArray|IndexOutOf|UnsupportedOperation)\w*Exception")
"""Matches Java's own exceptions, which occur when Spark's code reads a value that it does not expect."""
_FIX = "fix the candidate: it would fail on a new checkpoint version as well"
_MEASURED = "measured: a rehearsal reproduced 84 of 84 refusals"
_WORKER_LATE = "waiting for the Python worker to connect back"
"""Spark's error when a Python worker does not start in time, as on an overloaded machine."""

FAILURES = ("refused-by-spark", FAILS_INSIDE_SPARK, "fails-on-the-last-batch")
OUTPUT_DOES_NOT_FIT = "output-does-not-fit"
_MOST_CAUSES = 2
_STORED_FORM = re.compile(r"^(?:stateful-|operator-)|-(?:added|removed|reordered|type-changed|became-nullable)$")
"""Rules about the form of the state, which Spark compares; it does not compare the meaning of the values."""
_OF_INPUT, _OF_OUTPUT = "source-", ("output-", "sink-")
_OF_CODE = re.compile(r"code-|-code-|-retyped$|^columns-of-")

_OF_SPARK_ALONE = re.compile(r" for provider \w+\[.*\]| SQLSTATE: \w+")


def rehearsal_failed(error_class: str, message: str, batch: int | None, *, again: bool, hint: str = "") -> Finding:
    """Report Spark's error in a rehearsal on the real state.

    An error about state or offsets would not occur in a new checkpoint version; any other error would.

    ``batch``: the batch that was rerun, or the last committed batch if the batch after it was run; None if unknown.
    ``again``: True if ``batch`` itself was rerun, False if the batch after it was run.
    ``hint``: the remedy that the error itself names; empty if it names none.
    """
    error_text = f"{error_class}: {_OF_SPARK_ALONE.sub('', message)}"
    if error_class == OutputUnfit.__name__:
        return Finding(
            rule=OUTPUT_DOES_NOT_FIT,
            severity=Severity.BREAKING,
            where="sink",
            evidence=message.removesuffix(f" ({OutputUnfit.REMEDY})"),
            # A query without a batch has no checkpoint version that it could leave.
            hint=hint if hint and batch is None else NEW_CHECKPOINT,
        )
    if is_late_worker(message):
        return rehearsal_unfinished(message)
    rule, hint, reference = "fails-on-the-last-batch", hint or _FIX, _MEASURED
    if of_state := is_of_state(error_class, message):
        rule, hint = "refused-by-spark", NEW_CHECKPOINT
    elif _OF_SPARKS_CODE.fullmatch(error_class):
        rule, reference = FAILS_INSIDE_SPARK, ""
    return Finding(
        rule=rule,
        severity=Severity.BREAKING if of_state else Severity.FATAL,
        where="rehearsal" if batch is None else f"rehearsal {'of' if again else 'from'} batch {batch}",
        evidence=f"batch {batch} succeeded with the deployed release and fails with the candidate: {error_text}"
        if again
        else error_text,
        hint=hint,
        reference=reference,
    )


def is_late_worker(message: str) -> bool:
    """Whether Spark's error is that a Python worker did not start in time."""
    return _WORKER_LATE in message


def output_out_of_reach(message: str, hint: str) -> Finding:
    """Report that an output, or another service that the query uses, did not answer in the rehearsal. The candidate is
    not the cause. ``hint``: the remedy that the error itself names; empty if it names none.
    """
    return Finding(
        rule="sink-out-of-reach",
        severity=Severity.FATAL,
        where="rehearsal",
        evidence=message,
        hint=hint or "try again when the output answers",
    )


def is_of_state(error_class: str, message: str) -> bool:
    """Whether Spark rejects the state or the offsets of the checkpoint, rather than the candidate itself."""
    in_words = error_class != _OF_PYTHON and any(sentence in message for sentence in _SENTENCES)
    return error_class.startswith(_STATE_OR_OFFSETS) or in_words


def explained_by(findings: Iterable[Finding], found: Finding) -> Finding:
    """Return ``found``, unchanged unless it reports a failure inside Spark and ``findings`` contain a BREAKING finding.

    In that case the state no longer fits, so the severity of ``found`` becomes BREAKING, and its hint recommends a new
    checkpoint version, which does not have that state.

    A failure inside Spark is a Java exception without an error class of Spark's, raised in code that Spark generates.
    An example is code that reads a null key from the state, although the new plan declares the key not nullable.

    ``findings``: the findings from comparing the two manifests of the same query.
    """
    if found.rule != FAILS_INSIDE_SPARK or all(each.severity is not Severity.BREAKING for each in findings):
        return found
    return msgspec.structs.replace(found, severity=Severity.BREAKING, hint=NEW_CHECKPOINT)


def with_cause(findings: Iterable[Finding], found: Finding) -> Finding:
    """Return the finding about a failed rehearsal, with the changes that explain the failure added to its evidence
    before Spark's message. Return any other finding unchanged.

    If Spark refused the state, the changes of state and offsets explain the failure, or the changes of code if there
    are none. If a batch failed, the changes of code explain it. If there are no changes of code either, all other
    changes except those of the output may explain it.

    ``findings``: the findings from comparing the two manifests of the same query.
    """
    if found.rule not in FAILURES:
        return found
    likely = _of_state(findings) if found.severity is Severity.BREAKING else _of_code(findings)
    causes = list({cause.evidence: cause for cause in likely}.values())[:_MOST_CAUSES]
    if not causes:
        return found
    causes_text = "; ".join(map(_as_cause, causes))
    line = next((cause.line for cause in causes if cause.line), "")
    return msgspec.structs.replace(found, evidence=f"{causes_text} ({found.evidence})", line=found.line or line)


def _as_cause(cause: Finding) -> str:
    """Return the text that names a change as the cause of a failure: its place and its evidence. If the evidence begins
    with code instead of words, the text also contains the rule.
    """
    rule = f"{cause.rule.replace('-', ' ')} in " if cause.evidence.startswith("`") else ""
    return f"{rule}{cause.where}: {cause.evidence}"


def _of_state(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Return the changes of state and offsets, beginning with those whose form Spark compares. If there are none,
    return the changed code.
    """
    known = list(findings)
    breaking = [each for each in known if each.severity is Severity.BREAKING and not each.rule.startswith(_OF_OUTPUT)]
    return sorted(breaking, key=_rank) or _of_code(known)


def _rank(finding: Finding) -> int:
    if finding.rule.startswith(_OF_INPUT):
        return 1
    return 0 if _STORED_FORM.search(finding.rule) else 2


def _of_code(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Return the changes of code. If there are none, return all other changes of the query except those of the
    output.
    """
    known = list(findings)
    return [each for each in known if _OF_CODE.search(each.rule) and "-equally" not in each.rule] or [
        each for each in known if not each.rule.startswith(_OF_OUTPUT)
    ]


def rehearsed_without_rows(batch: int | None, *, searched: int) -> Finding:
    """Report that the rehearsal had no rows, so that no function of the candidate has run on data.

    ``searched``: the number of batches before the last one that were searched for rows.
    """
    return Finding(
        rule="rehearsed-without-rows",
        severity=Severity.NOTE,
        where="rehearsal" if batch is None else f"rehearsal of batch {batch}",
        evidence="no batch with input rows ran: the rehearsed batch has none, and no earlier one with input rows could "
        f"run (at most {searched} were searched)",
        hint="if this candidate is deployed, watch its first batch with rows",
    )


def rehearsal_unfinished(message: str) -> Finding:
    """Report that the rehearsal did not finish in time, so that its result is unknown."""
    return Finding(
        rule="rehearsal-timed-out",
        severity=Severity.OPAQUE,
        where="rehearsal",
        evidence=f"no result about the candidate: {message}",
        hint=f"check again, with more time or on a machine with less load. If you deploy without a result, {APPROVE}",
    )


def not_rehearsed(message: str, *, damaged: bool) -> Finding:
    """Report that the last batch was not rehearsed.

    ``damaged``: True if the batch cannot be rehearsed, for instance because the state before it is missing. The state
    after the batch may still be complete, so the finding is only a note. False if the checkpoint could not be copied,
    so that a later check may rehearse the batch.
    """
    return Finding(
        rule="not-rehearsed",
        severity=Severity.NOTE if damaged else Severity.OPAQUE,
        where="rehearsal",
        evidence=message,
        hint="the verdict rests on plans and checkpoint files only: if the candidate is deployed, watch its first batch"
        if damaged
        else f"check again when the checkpoint can be read. If you deploy before that, {APPROVE}",
        reference="measured: ckpt_no_middle_commit",
    )


def function_has_effects(message: str) -> Finding:
    """Report that a rehearsed batch was stopped because its function has effects. A rehearsal must have no effects,
    because the real query runs at the same time.
    """
    return Finding(
        rule="function-has-effects",
        severity=Severity.NOTE,
        where="rehearsal",
        evidence=message,
        hint="move the function's writes into the sink, because a rehearsal does not call the sink. As long as the"
        " function has effects, the query is not rehearsed, and only the plans and the files determine the verdict",
    )
