"""The outcome of a measured change: the rows that arrived are compared with those that were due. Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from conformance.matrix.case import Case, Outcome
from conformance.matrix.runs import NEVER_ENDS, Cells, Run, UnitRun

OF_OUTPUTS = "sinks"
"""Group of cases about outputs themselves. In other groups, a filter above the state may leave rows in a table that it
would drop.
"""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome``: the outcome that counts; ``measured``: the outcome by the rows alone, which a case with a ``truth``
    overrides.
    """

    outcome: Outcome
    measured: Outcome
    error_class: str = ""
    evidence: str = ""


def judge(case: Case, *, before: Run, got: Run, scratch: UnitRun | None, pinned: tuple[str, ...] = ()) -> Judgement:
    """Judge one change.

    ``before``: the run of the deployed job; ``got``: the run of the candidate on its checkpoint; ``scratch``: the
    candidate from the beginning, up to the same place and over the same rows after it (None: not run, since Spark
    refused); ``pinned``: the settings that the candidate requested without effect.
    """
    if got.error_class or scratch is None or scratch.tail is None:
        outcome = Outcome.NEVER_ENDS if got.error_class == NEVER_ENDS else Outcome.REFUSED
        where = f" after {len(got.batches)} batches" if got.batches else ""
        return Judgement(
            outcome=outcome, measured=outcome, error_class=got.error_class, evidence=f"refused{where}: {got.message}"
        )
    if case.masked:
        before, got = _masked(before, case.masked), _masked(got, case.masked)
        scratch = UnitRun(head=_masked(scratch.head, case.masked), tail=_masked(scratch.tail, case.masked))
    assert scratch.tail is not None
    measured, evidence = _compare(case, before, got, scratch.head, scratch.tail)
    if measured is Outcome.CORRECT or (measured is Outcome.DUPLICATES and got.kind != "foreach"):
        measured, evidence = _compare_output(before, got, evidence, replaced=case.new.mode == "complete")
    if measured is Outcome.CORRECT and case.group == OF_OUTPUTS:
        measured, evidence = _compare_keys(got, scratch.tail, evidence)
    if measured is Outcome.CORRECT and got.state is not None and scratch.tail.state is not None:
        measured, evidence = _compare_state(got.state, scratch.tail.state, evidence)
    if measured is Outcome.CORRECT:
        measured, evidence = _compare_places(before, scratch.head, evidence)
    if measured is Outcome.CORRECT and pinned:
        measured, evidence = Outcome.IGNORED, f"{evidence}; pinned: {', '.join(pinned)}"
    if case.truth is not None:
        return Judgement(outcome=case.truth[0], measured=measured, evidence=f"{case.truth[1]}; {evidence}")
    return Judgement(outcome=measured, measured=measured, evidence=evidence)


def _compare(case: Case, before: Run, got: Run, head: Run, wanted: Run) -> tuple[Outcome, str]:
    """Compare the rows that arrived after the change with those of a run from scratch after the same place.

    Append mode emits each row once: rows that arrived earlier or later than they would from scratch are correct in
    total, and rows that a different mode had emitted before the change are emitted twice.
    """
    if wanted.error_class:
        return Outcome.REFUSED, f"from the beginning it is refused: {wanted.error_class} {wanted.message}"
    came, due, old = Counter(got.rows), Counter(wanted.rows), Counter(before.rows)
    extra, missing = came - due, due - came
    evidence = f"want {_show(due)} | got {_show(came)}"
    if case.new.mode == "append" and case.old.mode != "append" and came & old:
        return Outcome.DUPLICATES, f"given out before as well: {_show(came & old)} | got {_show(came)}"
    if not extra and not missing:
        return Outcome.CORRECT, evidence
    if case.old.mode == case.new.mode == "append" and old + came == Counter(head.rows) + due:
        return Outcome.CORRECT, f"{evidence}; with the rows of before the same"
    if not extra:
        return Outcome.LOSES, evidence
    if not missing and not extra - old:
        return Outcome.DUPLICATES, evidence
    return Outcome.WRONG, evidence


def _compare_output(before: Run, got: Run, evidence: str, *, replaced: bool) -> tuple[Outcome, str]:
    """Check that a reader of the sink finds the old rows and the new ones, in the candidate's columns; ``replaced``: in
    a table only those of the last batch, which replaces all rows.
    """
    if got.kind == "foreach":
        return (Outcome.CORRECT if before.kind == "foreach" else Outcome.WRONG), evidence
    if got.held is None:
        return Outcome.WRONG, f"{evidence}; the output cannot be read: {got.unread}"
    if replaced and got.kind == "table" and got.batches:
        due = Counter(_projected(dict(zip(got.columns, row, strict=True)), got.columns) for row in _last_batch(got))
    else:
        due = _due(before, got)
    found = Counter(_projected(row, got.columns) for row in got.held)
    if found == due:
        return Outcome.CORRECT, evidence
    return Outcome.WRONG, f"{evidence}; output: want {_show(due)} | found {_show(found)}"


def _compare_keys(got: Run, wanted: Run, evidence: str) -> tuple[Outcome, str]:
    """Check that the output has no rows under keys that a run from scratch would not write: such rows are never
    updated.

    A table names its key; files and the output of a function have place and ``out_id`` as their key, if any.
    """
    names = got.key if got.kind == "table" else ("its place", "out_id")
    if got.held is None or wanted.held is None or not any(names[-1] in row for row in got.held):
        return Outcome.CORRECT, evidence
    found, due = ({tuple(row.get(name, "") for name in names) for row in run.held or ()} for run in (got, wanted))
    if found <= due:
        return Outcome.CORRECT, evidence
    stale = sorted("(" + ",".join(key) + ")" for key in found - due)
    return Outcome.WRONG, f"{evidence}; rows stay under keys that no row has now: {' '.join(stale[:8])}"


def _compare_places(before: Run, head: Run, evidence: str) -> tuple[Outcome, str]:
    """Check that two functions put the same earlier rows into the same places; if the rows differ, nothing can be
    concluded.
    """
    if before.kind != "foreach" or head.kind != "foreach" or before.held is None or head.held is None:
        return Outcome.CORRECT, evidence
    if before.columns != head.columns or Counter(before.rows) != Counter(head.rows):
        return Outcome.CORRECT, evidence
    had, has = (Counter(tuple(sorted(row.items())) for row in run.held or ()) for run in (before, head))
    if had == has:
        return Outcome.CORRECT, evidence
    moved = [dict(each)["its place"] for each in (had - has).elements()]
    return Outcome.WRONG, f"{len(moved)} rows of before would go elsewhere than to {', '.join(sorted(set(moved)))}"


def _last_batch(run: Run) -> list[Cells]:
    return list(run.batches[max(run.batches)])


def _due(before: Run, got: Run) -> Counter[Cells]:
    """Return what a sink must hold: each batch once, even if it arrived twice; for a table, the last row under each
    key.
    """
    batches = {number: (before.columns, rows) for number, rows in before.batches.items()}
    batches |= {number: (got.columns, rows) for number, rows in got.batches.items()}
    rows = [dict(zip(columns, row, strict=True)) for _, (columns, found) in sorted(batches.items()) for row in found]
    if got.kind == "table":
        rows = list({tuple(row.get(name, "") for name in got.key): row for row in rows}.values())
    return Counter(_projected(row, got.columns) for row in rows)


def _compare_state(got: list[str], wanted: list[str], evidence: str) -> tuple[Outcome, str]:
    extra, missing = Counter(got) - Counter(wanted), Counter(wanted) - Counter(got)
    if not extra and not missing:
        return Outcome.CORRECT, evidence
    one, other = (" ".join(sorted(each.elements())[:6]) or "<none>" for each in (missing, extra))
    return Outcome.WRONG, f"state: missing {one} | extra {other}"


def _masked(run: Run, prefix: str) -> Run:
    at = [number for number, name in enumerate(run.columns) if name.startswith(prefix)]
    batches = {
        batch: [tuple("*" if each in at else cell for each, cell in enumerate(row)) for row in rows]
        for batch, rows in run.batches.items()
    }
    held = run.held and [
        {name: "*" if name.startswith(prefix) else cell for name, cell in row.items()} for row in run.held
    ]
    return msgspec.structs.replace(run, batches=batches, held=held)


def _projected(row: dict[str, str], columns: Cells) -> Cells:
    return tuple(row.get(name, "NULL") for name in columns)


def _show(rows: Counter[Cells]) -> str:
    shown = sorted("(" + ",".join(row) + ")" for row in rows.elements())
    return " ".join(shown[:8]) + (f" ..+{len(shown) - 8}" if len(shown) > 8 else "") or "<none>"
