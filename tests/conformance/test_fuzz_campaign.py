"""Tests of a fuzz campaign: measured truths are reused across versions of the check, answers hold for one version of
it, and a share of the pairs is rehearsed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from conformance.fuzz import campaign
from conformance.fuzz.campaign import is_answered, run_share, to_rehearse
from conformance.fuzz.label import Label
from conformance.fuzz.pairs import Pair, draw_base
from conformance.fuzz.pieces import by_rules
from conformance.fuzz.plugins_state import digest_of, plugins_state
from conformance.fuzz.truths import Known, keep_truth, key_of, read_known, tidy_known, truth_of
from conformance.fuzz.verdicts import Grade, Line, append_lines, grade, read_lines, render_scores
from conformance.matrix.case import Outcome
from conformance.matrix.record import Truth
from conformance.matrix.score import Answer

PAIRS = list(draw_base(1, 0))[:3]


def truth(pair: Pair, outcome: Outcome = Outcome.CORRECT, spark: str = "4.2.0") -> Truth:
    """Return a measured truth of a pair."""
    return Truth(id="another", provider=pair.provider, key=key_of(pair), outcome=outcome, measured=outcome, spark=spark)


def line(pair: Pair, verdict: str = "RESUME", *, rehearsed: bool = False, plugins: str = "") -> Line:
    """Return a line with the check's answer about a pair."""
    return Line(
        id=pair.id,
        seed=pair.seed,
        base=pair.base,
        edit=pair.edit.name,
        label=Label.CHANGING,
        opaque=False,
        provider=pair.provider,
        commit="c",
        key=key_of(pair),
        plugins=plugins or plugins_state(),
        rehearsed=rehearsed,
        answer=Answer(verdict=verdict),
    )


def test_a_truth_is_found_by_what_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measured truth is found by what was run, whatever id it was stored under; a truth of a different Spark version
    or of a different pair is not reused.
    """
    monkeypatch.setattr("conformance.fuzz.truths.version", lambda name: "4.2.0")
    file = tmp_path / "truths.jsonl"
    for each in (truth(PAIRS[0], Outcome.WRONG), truth(PAIRS[0]), truth(PAIRS[1], spark="4.1.0")):
        keep_truth(file, each)
    tidy_known(file)
    assert len(file.read_bytes().splitlines()) == 2
    found = truth_of(PAIRS[0], read_known(file))
    assert found is not None
    assert (found.id, found.outcome) == (PAIRS[0].id, Outcome.CORRECT)
    assert truth_of(PAIRS[1], read_known(file)) is None
    assert truth_of(PAIRS[2], read_known(file)) is None


def test_the_plugin_digest_changes_only_with_file_names_and_code(tmp_path: Path) -> None:
    """The digest of the plugins changes with a file's name or code, and does not change with a compiled file, a
    docstring or a comment.
    """
    (tmp_path / "a.py").write_text("'doc'\n1")
    first = digest_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_text("1")
    assert digest_of(tmp_path) == first
    (tmp_path / "a.py").write_text("'text'  # why\n1")
    assert digest_of(tmp_path) == first
    (tmp_path / "a.py").write_text("2")
    second = digest_of(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, digest_of(tmp_path)}) == 3


def test_an_answer_counts_only_for_its_check_version_and_kind_of_run() -> None:
    """A pair's answer counts only for the same version of the check and the same kind of run: a newer check or a
    rehearsal needs a new answer.
    """
    pair = PAIRS[0]
    assert is_answered(pair, {(pair.id, False): line(pair)}, rehearse=False)
    assert not is_answered(pair, {(pair.id, False): line(pair)}, rehearse=True)
    assert not is_answered(pair, {(pair.id, False): line(pair, plugins="older")}, rehearse=False)
    assert not is_answered(PAIRS[1], {(PAIRS[1].id, False): line(pair)}, rehearse=False)


def test_rehearsed_pairs_are_chosen_by_id_and_include_those_only_spark_refuses() -> None:
    """The same pairs are chosen for a rehearsal in any order of drawing, plus the pairs that the rules allow and Spark
    refuses.
    """
    refused = msgspec.structs.replace(line(PAIRS[2]), truth=truth(PAIRS[2], Outcome.REFUSED))
    assert grade(refused) is Grade.LEFT
    assert grade(msgspec.structs.replace(refused, rehearsed=True)) is Grade.UNSAFE
    lines = {(PAIRS[2].id, False): refused}
    drawn = to_rehearse(PAIRS, 1, {})
    assert len(drawn) == 1
    assert to_rehearse(PAIRS[::-1], 1, lines) == drawn | {PAIRS[2].id}
    assert to_rehearse(PAIRS, 0, lines) == frozenset()


def test_a_pair_whose_deployed_job_never_finishes_is_graded_unmeasured() -> None:
    """A pair whose deployed job never finishes in Spark is graded as unmeasured; any other job that does not run is an
    error of the grammar.
    """
    broken = msgspec.structs.replace(line(PAIRS[0]), answer=None)
    assert (
        grade(msgspec.structs.replace(broken, broken="its deployed job does not run: NEVER_ENDS")) is Grade.UNMEASURED
    )
    assert grade(msgspec.structs.replace(broken, broken="its deployed job does not run: x")) is Grade.ERROR


def test_the_verdict_by_rules_ignores_a_rehearsal_that_was_not_requested() -> None:
    """The verdict by rules ignores the finding that no rehearsal was requested, but keeps a ``not-looked`` finding with
    any other cause.
    """
    missing = {"rule": "not-looked", "severity": "opaque", "evidence": "no rehearsal was wanted"}
    other = {"rule": "not-looked", "severity": "opaque", "evidence": "timed out"}
    note = {"rule": "tuning-changed", "severity": "note", "evidence": ""}

    def verdict(*findings: dict[str, str]) -> object:
        return by_rules({"verdict": "x", "queries": {"q": {"verdict": "x", "findings": list(findings)}}})["verdict"]

    assert [verdict(missing, note), verdict(missing, other), verdict(missing)] == ["RESUME", "BACKUP", "RESUME"]
    assert by_rules({"error": "no job"}) == {"error": "no job"}


def test_the_score_excludes_answers_of_other_check_versions(tmp_path: Path) -> None:
    """The score counts rules and rehearsals separately, and only states the number of answers that come from other
    versions of the check.
    """
    file = tmp_path / "fuzz.jsonl"
    append_lines(file, [line(PAIRS[0]), line(PAIRS[0], rehearsed=True), line(PAIRS[1], plugins="older")])
    known: Known = {(key_of(each), "4.2.0"): truth(each, Outcome.WRONG) for each in PAIRS}
    score = render_scores(read_lines(file, known).values(), plugins_state())
    assert "1 answers at other states are not counted" in score
    assert score.count("1 pairs of 1 seeds") == 2
    assert score.index("by rules:") < score.index("by rehearsal:")


def test_a_campaign_measures_only_pairs_without_truth_and_checks_each_pair_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign measures only pairs without a known truth, answers every pair once and rehearses the chosen share; a
    second run does nothing.
    """
    truths, results = tmp_path / "truths.jsonl", tmp_path / "fuzz.jsonl"
    keep_truth(truths, truth(PAIRS[0]))
    done: list[tuple[str, list[str]]] = []

    def measure(pairs: list[Pair], root: Path, known: Known, *_: object, **more: object) -> object:
        new = [each for each in pairs if truth_of(each, known) is None]
        done.append(("measured", [each.id for each in new]))
        for each in new:
            keep_truth(truths, truth(each))
        return {each.id: truth(each) for each in pairs}, {}

    def answer(pairs: list[Pair], *_: object, rehearse: bool) -> list[Line]:
        done.append(("rehearsed" if rehearse else "answered", [each.id for each in pairs]))
        return [line(each, rehearsed=rehearse) for each in pairs]

    monkeypatch.setattr(campaign, "measure", measure)
    monkeypatch.setattr(campaign, "answer_pairs", answer)
    monkeypatch.setattr(campaign, "drop_units", lambda *_: None)
    chosen = argparse.Namespace(
        share="", keep=tmp_path, minutes=5, verdicts=False, truths=truths, results=results, rehearse=1
    )
    run_share(chosen, PAIRS)
    ids = [each.id for each in PAIRS]
    assert [each for each in done if each[1]] == [
        ("measured", ids[1:]),
        ("answered", ids),
        ("rehearsed", sorted(to_rehearse(PAIRS, 1, {}))),
    ]
    done.clear()
    run_share(chosen, PAIRS)
    assert done == []
