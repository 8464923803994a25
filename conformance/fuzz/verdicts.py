"""The check's answers about each pair, one JSON line each, and the score. Pure, except for reading and writing lines.

Answers depend on ``plugins/`` and truths do not, so a line is stored without its truth, which is joined when the line
is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from importlib.metadata import version
from pathlib import Path

import msgspec

from conformance.fuzz.label import Label
from conformance.fuzz.truths import Known
from conformance.matrix.case import Outcome
from conformance.matrix.record import Truth
from conformance.matrix.runs import NEVER_ENDS
from conformance.matrix.score import Answer

_ABOUT_CODE = frozenset(
    {
        "code-in-state-changed (opaque)",
        "sink-function-may-write-elsewhere (opaque)",
        "sink-column-redefined (opaque)",
    }
)
HARD = (Outcome.REFUSED, Outcome.NEVER_ENDS)


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pair: what Spark did (``truth``), and what the check answered (``answer``, and its findings in its own
    words).

    ``broken``: why the pair could not be measured. ``commit``, ``code`` and ``plugins``: the project's commit, its code
    and the digest of its ``plugins/`` when the check ran; older lines have no ``code``. ``rehearsed``: whether the
    candidate was run as well; otherwise the rules alone answered. ``key``: the pair's key, by which its truth is found.
    """

    id: str
    seed: int
    base: int
    edit: str
    label: Label
    opaque: bool
    provider: str
    commit: str
    code: str = ""
    key: str = ""
    plugins: str = ""
    rehearsed: bool = False
    truth: Truth | None = None
    answer: Answer | None = None
    findings: tuple[str, ...] = ()
    broken: str = ""


class Grade(Enum):
    """The grade of one pair."""

    RIGHT = "right"
    UNSAFE = "unsafe"
    FALSE_ALARM = "false alarm"
    ASKED = "asked about code"
    UNSEEN = "unseen by the data"
    BY_RULE = "counts from now on"
    LEFT = "left to the rehearsal"
    UNMEASURED = "that Spark itself never ends"
    ERROR = "error"


def grade(line: Line) -> Grade:
    """Grade one pair; an equivalent edit whose run differs is an error of the grammar."""
    if never_ends(line):
        return Grade.UNMEASURED
    if line.truth is None or line.answer is None or line.answer.verdict == "ERROR":
        return Grade.ERROR
    outcome, verdict = line.truth.outcome, line.answer.verdict
    if not line.rehearsed and verdict == "RESUME" and outcome in HARD and line.label is not Label.EQUIVALENT:
        return Grade.LEFT
    match line.label:
        case Label.EQUIVALENT if not outcome.safe:
            return Grade.ERROR
        case Label.EQUIVALENT if verdict == "BACKUP" and line.opaque and _asks_about_code(line.answer):
            return Grade.ASKED
        case Label.EQUIVALENT:
            return Grade.RIGHT if verdict == "RESUME" else Grade.FALSE_ALARM
        case Label.FROM_NOW_ON if outcome not in HARD:
            if verdict != "RESUME":
                return Grade.FALSE_ALARM
            return Grade.RIGHT if outcome.safe else Grade.BY_RULE
        case _ if outcome.safe:
            return Grade.UNSEEN
        case _:
            return Grade.UNSAFE if verdict == "RESUME" else Grade.RIGHT


def never_ends(line: Line) -> bool:
    """Return whether the deployed job itself runs into a deadlock of Spark, so that none of its pairs can be
    measured.
    """
    return NEVER_ENDS in line.broken


def _asks_about_code(answer: Answer) -> bool:
    """Return whether the answer asks only about the code itself."""
    return {each for each in answer.rules if not each.endswith("(note)")} <= _ABOUT_CODE


Lines = dict[tuple[str, bool], Line]
"""(id, whether the candidate was rehearsed) -> the newest line."""


def read_lines(file: Path, known: Known) -> Lines:
    """Return the newest answer about each pair, by rules and by rehearsal, joined with the known truth of the pair."""
    if not file.exists():
        return {}
    spark = version("pyspark")
    found = [msgspec.json.decode(each, type=Line) for each in file.read_bytes().splitlines()]
    return {
        (each.id, each.rehearsed): msgspec.structs.replace(each, truth=known.get((each.key, spark))) for each in found
    }


def append_lines(file: Path, lines: Iterable[Line]) -> None:
    """Append answers, each in one write: a different worker may append to the same file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as stream:
        for each in lines:
            stream.write(_encoded(each))


def write_lines(file: Path, lines: Iterable[Line]) -> None:
    """Replace the file by these answers."""
    draft = file.with_suffix(".draft")
    draft.write_bytes(b"".join(_encoded(each) for each in lines))
    draft.rename(file)


def _encoded(line: Line) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(line, truth=None)) + b"\n"


def render_scores(lines: Iterable[Line], plugins: str) -> str:
    """Return the score of the answers for one state of ``plugins/``, by rules and by rehearsal, with the number of
    answers for other states.

    A pair without a truth or an answer is in error at every state.
    """
    known = list(lines)
    now = [each for each in known if each.plugins == plugins]
    found = [f"answers at plugins {plugins}; {len(known) - len(now)} answers at other states are not counted"]
    for title, rehearsed in (("by rules", False), ("by rehearsal", True)):
        some = [each for each in now if each.rehearsed is rehearsed]
        if some:
            found += ["", f"{title}:", render_score(some)]
    return "\n".join(found)


def render_score(lines: Iterable[Line]) -> str:
    """Return the score in words, and list every pair that is unsafe, a false alarm or in error."""
    known = list(lines)
    grades = Counter(grade(each) for each in known)
    labels = Counter(each.label for each in known)
    seeds = sorted({each.seed for each in known})
    alarms = grades[Grade.FALSE_ALARM]
    found = [f"{len(known)} pairs of {len(seeds)} seeds, {len({each.edit for each in known})} kinds of edits"]
    found.append(", ".join(f"{labels[each]} {each.value}" for each in Label))
    found.append(", ".join(f"{grades[each]} {each.value}" for each in Grade))
    found.append(f"false alarms: {_share(alarms, labels[Label.EQUIVALENT])} of equivalent edits")
    found.append(f"unseen by the data: {_share(grades[Grade.UNSEEN], labels[Label.CHANGING])} of changing edits")
    for wanted in (Grade.UNSAFE, Grade.FALSE_ALARM, Grade.ERROR):
        found += [_told(each, wanted) for each in known if grade(each) is wanted]
    return "\n".join(found)


def _told(line: Line, grade: Grade) -> str:
    truth = f"{line.truth.outcome.value} {line.truth.error_class}" if line.truth else line.broken
    answer = f"{line.answer.verdict} {' '.join(line.answer.rules)} {line.answer.error[:200]}" if line.answer else ""
    return "\n    ".join([f"{grade.value}: {line.id} {line.provider}: {truth} | {answer}", *line.findings])


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else "none"
