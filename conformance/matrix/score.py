"""The score of a check: which unsafe changes it let through, and which safe changes it stopped. This module has no side
effects.

The outcomes {REFUSED, BUT_WRONG, LOSES, DUPLICATES} require SWITCH or REFUSE, or BACKUP if the cause is opaque: Python
code in or below a stateful operator. The outcomes {CORRECT, IGNORED} require RESUME.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

import msgspec

from conformance.matrix.case import Case
from conformance.matrix.record import Truth

VERDICTS = ("RESUME", "BACKUP", "SWITCH", "REFUSE", "ERROR")
"""The verdicts that an answer can have; ERROR stands for an answer without a verdict."""

CLASSES = ("must stop", "may go on")


class Grade(Enum):
    """The grade of one answer of the check."""

    RIGHT = "right"
    UNSAFE = "unsafe"
    UNPROVEN = "unproven"
    FALSE_ALARM = "false alarm"
    UNANSWERED = "unanswered"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the check: its verdict, the rules that it found (strictest first), or its error."""

    verdict: str
    rules: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0


class Graded(msgspec.Struct, frozen=True, kw_only=True):
    """One case under one provider, with its answer and its grade."""

    id: str
    provider: str
    group: str
    change: str
    cause: str
    opaque: bool
    twin: str
    truth: Truth
    answer: Answer
    grade: Grade


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """All graded answers of a check, with counts of them."""

    graded: tuple[Graded, ...]

    @property
    def matrix(self) -> Counter[tuple[str, str]]:
        """Return the count of each pair of outcome class (must stop | may go on) and verdict."""
        return Counter((_class(each.truth), each.answer.verdict) for each in self.graded)

    @property
    def grades(self) -> Counter[Grade]:
        """Return the count of each grade."""
        return Counter(each.grade for each in self.graded)

    @property
    def backups(self) -> Counter[bool]:
        """Return the count of BACKUP verdicts: for opaque changes (True) and for all others (False)."""
        return Counter(each.opaque for each in self.graded if each.answer.verdict == "BACKUP")

    @property
    def by_the_rows(self) -> int:
        """Return the count of false alarms for changes that are safe with these rows only, and not with other rows."""
        return sum(bool(each.twin) for each in self.graded if each.grade is Grade.FALSE_ALARM)

    @property
    def misses(self) -> tuple[Graded, ...]:
        """Return every answer that is not right, the unsafe ones first."""
        order = list(Grade)[1:]
        wrong = [each for each in self.graded if each.grade is not Grade.RIGHT]
        return tuple(sorted(wrong, key=lambda each: (order.index(each.grade), each.group, each.id)))

    @property
    def failed(self) -> bool:
        """Return whether the check let any unsafe change through."""
        return bool(self.grades[Grade.UNSAFE])


def score(answered: Iterable[tuple[Case, Truth, Answer]]) -> Score:
    """Grade every answer."""
    return Score(
        graded=tuple(
            Graded(
                id=case.id,
                provider=truth.provider,
                group=case.group,
                change=case.change,
                cause=case.cause,
                opaque=case.opaque,
                twin=case.twin,
                truth=truth,
                answer=answer,
                grade=grade(case, truth, answer),
            )
            for case, truth, answer in answered
        )
    )


def grade(case: Case, truth: Truth, answer: Answer) -> Grade:
    """Grade one answer. An error is right only if Streamkeeper itself declines the candidate."""
    if answer.verdict == "ERROR":
        return Grade.RIGHT if case.declined and not truth.outcome.safe else Grade.UNANSWERED
    if answer.verdict == "BACKUP":
        if case.opaque:
            return Grade.RIGHT
        return Grade.FALSE_ALARM if truth.outcome.safe else Grade.UNPROVEN
    if answer.verdict == "RESUME":
        return Grade.RIGHT if truth.outcome.safe else Grade.UNSAFE
    return Grade.FALSE_ALARM if truth.outcome.safe else Grade.RIGHT


def read_answer(line: dict[str, object]) -> Answer:
    """Convert an answer line of ``streamkeeper check --batch``; an unknown verdict becomes an error."""
    verdict = line.get("verdict")
    if line.get("error") or verdict not in VERDICTS:
        return Answer(verdict="ERROR", error=str(line.get("error") or f"no verdict: {verdict!r}"))
    read = msgspec.convert(line, _Line, strict=False)
    findings = [each for query in read.queries.values() for each in query.findings]
    findings.sort(key=lambda each: _SEVERITIES.index(each.severity) if each.severity in _SEVERITIES else 0)
    return Answer(
        verdict=read.verdict,
        rules=tuple(f"{each.rule} ({each.severity})" for each in findings),
        seconds=round(sum(read.seconds.values()), 2),
    )


_SEVERITIES = ("fatal", "breaking", "opaque", "note")


class _Finding(msgspec.Struct):
    rule: str
    severity: str


class _Query(msgspec.Struct):
    verdict: str
    findings: list[_Finding] = []


class _Line(msgspec.Struct):
    verdict: str
    queries: dict[str, _Query] = {}
    seconds: dict[str, float] = {}


def _class(truth: Truth) -> str:
    return CLASSES[1] if truth.outcome.safe else CLASSES[0]
