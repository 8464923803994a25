"""Which drawn pairs a dry run is asked about."""

from __future__ import annotations

from collections import Counter

from bench.fuzz.doors import A_BASE, choose
from bench.fuzz.pairs import draw_base
from bench.fuzz.verdicts import Line
from bench.matrix.case import Outcome
from bench.matrix.record import Truth
from bench.matrix.score import Answer


def line_of(base: int, at: int, verdict: str, *, key: str = "") -> Line:
    """A measured pair of seed 1 with this verdict; ``key``: of another pair than the one that is drawn."""
    pair = list(draw_base(1, base))[at]
    found = key or pair.case.key(pair.provider)
    truth = Truth(id=pair.id, provider=pair.provider, key=found, outcome=Outcome.CORRECT, measured=Outcome.CORRECT)
    return Line(
        id=pair.id,
        seed=1,
        base=base,
        edit=pair.edit.name,
        label=pair.edit.label,
        opaque=False,
        provider=pair.provider,
        commit="c",
        truth=truth,
        answer=Answer(verdict=verdict),
    )


def test_every_verdict_is_asked_about_and_no_base_too_often() -> None:
    """The rare verdicts come first, and of a base at most two pairs."""
    lines = [line_of(base, at, "RESUME") for base in range(4) for at in range(3)]
    lines += [line_of(4, 0, "SWITCH"), line_of(5, 0, "REFUSE")]
    found = choose(lines, 6)
    assert len(found) == 6
    assert {line.answer.verdict for _, line in found if line.answer} == {"RESUME", "SWITCH", "REFUSE"}
    assert max(Counter(pair.base for pair, _ in found).values()) <= A_BASE


def test_a_pair_that_is_not_drawn_any_more_is_not_asked_about() -> None:
    """A pair of an older grammar has no job that could be deployed."""
    assert choose([line_of(0, 0, "RESUME", key="other")], 5) == []
