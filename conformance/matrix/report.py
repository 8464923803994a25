"""Prints the score as tables for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conformance.matrix.case import Outcome
from conformance.matrix.record import Truth
from conformance.matrix.score import CLASSES, VERDICTS, Grade, Score


def print_differences(console: Console, truths: Iterable[Truth], recorded: dict[tuple[str, str], Outcome]) -> None:
    """Print the outcomes that differ from those of the earlier measurement."""
    table = Table("case", "provider", "recorded", "measured", "evidence", title="Differs from what was recorded")
    for truth in truths:
        known = recorded.get((truth.id, truth.provider))
        if known is not None and known is not truth.outcome:
            table.add_row(truth.id, truth.provider, known.value, truth.outcome.value, escape(truth.evidence[:160]))
    if table.row_count:
        console.print(table)


def print_score(console: Console, score: Score) -> None:
    """Print the confusion matrix, the counts and every miss."""
    table = Table("", *VERDICTS, title=f"{len(score.graded)} cases")
    for name in CLASSES:
        table.add_row(name, *(str(score.matrix[name, verdict]) for verdict in VERDICTS))
    console.print(table)
    if score.misses:
        console.print(_misses(score))
    grades = ", ".join(f"{score.grades[each]} {each.value}" for each in Grade)
    backups = f"BACKUP of opaque changes: {score.backups[True]}, of others: {score.backups[False]}"
    console.print(f"{grades}; {backups}")
    console.print(f"false alarms of changes that do not go on with other rows: {score.by_the_rows}")


def _misses(score: Score) -> Table:
    table = Table("grade", "case", "provider", "outcome", "verdict", "true cause", "rules found", title="Misses")
    for each in score.misses:
        found = "; ".join(each.answer.rules) or each.answer.error[:160]
        outcome = each.truth.outcome.value
        cause = f"{each.cause}: {each.change}" + (f" (with other rows: {each.twin})" if each.twin else "")
        table.add_row(
            each.grade.value, each.id, each.provider, outcome, each.answer.verdict, escape(cause), escape(found)
        )
    return table
