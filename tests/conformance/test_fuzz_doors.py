"""Tests of which drawn pairs are sent through the doors (the ways to submit a change), and of when the doors agree."""

from __future__ import annotations

from collections import Counter

from conformance.fuzz.doors import A_BASE, answer_of, choose, is_one_answer, newest_of
from conformance.fuzz.pairs import draw_base
from conformance.fuzz.verdicts import Line
from conformance.matrix.case import Outcome
from conformance.matrix.record import Truth
from conformance.matrix.score import Answer


def line_of(base: int, at: int, verdict: str, *, key: str = "") -> Line:
    """Return the result line of a measured pair of seed 1 with this verdict; ``key`` replaces the key of the pair that
    is drawn.
    """
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


def test_chosen_pairs_cover_every_verdict_and_limit_pairs_per_base() -> None:
    """The choice of pairs covers every verdict, including the rare ones, with at most ``A_BASE`` pairs from one base
    pipeline.
    """
    lines = [line_of(base, at, "RESUME") for base in range(4) for at in range(3)]
    lines += [line_of(4, 0, "SWITCH"), line_of(5, 0, "REFUSE")]
    found = choose(lines, 6)
    assert len(found) == 6
    assert {line.answer.verdict for _, line in found if line.answer} == {"RESUME", "SWITCH", "REFUSE"}
    assert max(Counter(pair.base for pair, _ in found).values()) <= A_BASE


def test_a_pair_that_the_grammar_no_longer_draws_is_not_chosen() -> None:
    """A pair that the current grammar no longer draws is not chosen, because it has no job to deploy."""
    assert choose([line_of(0, 0, "RESUME", key="other")], 5) == []


def test_a_pair_with_a_changed_spark_configuration_is_not_chosen() -> None:
    """A pair with a changed Spark configuration is not chosen, because a pull request cannot carry one."""
    tuned = [(base, at) for base in range(12) for at, pair in enumerate(draw_base(1, base)) if pair.case.candidate_conf]
    assert tuned
    assert choose([line_of(*each, "RESUME") for each in tuned], 5) == []


def test_the_answer_by_rules_takes_precedence_over_a_rehearsal() -> None:
    """The answer by rules is used for each pair, and the answer of a rehearsal only if the rules have not answered."""
    one, other = line_of(0, 0, "RESUME"), line_of(0, 1, "SWITCH")
    found = newest_of({(one.id, True): other, (one.id, False): one, (other.id, True): other})
    assert {each.id for each in found} == {one.id, other.id}


def test_doors_agree_on_verdict_and_rules() -> None:
    """Two doors agree if their verdicts and rules are equal; they do not agree if the rules differ or if a door
    fails.
    """
    findings = [{"rule": "b", "severity": "note"}, {"rule": "a", "severity": "breaking"}]
    found = answer_of({"verdict": "SWITCH", "queries": {"q": {"verdict": "SWITCH", "findings": findings}}})
    assert found == {"verdict": "SWITCH", "rules": ["a (breaking)", "b (note)"]}
    assert is_one_answer({"check": found, "deploy": dict(found)})
    assert not is_one_answer({"check": found, "deploy": {**found, "rules": []}})
    assert not is_one_answer({"check": {"error": "x"}, "deploy": {"error": "x"}})
    assert answer_of({"error": "no job"}) == {"error": "no job"}
