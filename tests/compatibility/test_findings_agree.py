"""Tests that the findings about one change agree with each other, and that each shows the change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.shown import ARROW
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, StateColumn
from tests.compatibility import test_assess, test_code_changes
from tests.compatibility.manifests import AGGREGATE, JOIN, STATEFUL, STATELESS, changed, with_operator, with_state

_SURE = "no effect"
_LONGEST = 200


def cases() -> Iterable[tuple[Manifest, Manifest]]:
    """Yield every pair of manifests in the rules' own tests, in both directions, and some combined changes."""
    for test in (
        test_assess.test_what_touches_state_offsets_or_output_is_breaking,
        test_assess.test_what_is_proven_safe_is_resumed_with_a_note,
        test_assess.test_changes_with_unprovable_effect_give_backup,
    ):
        marks: Any = test
        for mark in marks.pytestmark:
            for values in mark.args[1]:
                old, new = getattr(values, "values", values)[:2]
                yield from ((old, new), (new, old))
    yield test_code_changes.OLD, test_code_changes.manifest("b", settings__LIMIT=None)
    yield from _of_several()


def _of_several() -> Iterable[tuple[Manifest, Manifest]]:
    """Yield pairs with combined changes: a type and the text, a time zone and what depends on it, both sides of a
    join.
    """
    retyped = (msgspec.structs.replace(AGGREGATE.values[0], type="double"),)
    yield STATEFUL, with_operator(STATEFUL, values=retyped)
    zone = {**STATEFUL.confs, "spark.sql.session.timeZone": "Asia/Tokyo"}
    yield STATEFUL, changed(with_operator(STATEFUL), confs=zone)
    ansi = {**STATELESS.confs, "spark.sql.ansi.enabled": "false"}
    yield STATELESS, changed(STATELESS, plan=STATELESS.plan.replace("22", "23"), confs=ansi)
    values = tuple(StateColumn(meaning=f"source {side}.ts", type="timestamp") for side in (0, 1))
    strict = [msgspec.structs.replace(value, type="timestamp not null") for value in values]
    yield with_state(JOIN, values=(values[0], strict[1])), with_state(JOIN, values=(strict[0], values[1]))


def findings_of(old: Manifest, new: Manifest) -> tuple[Finding, ...]:
    """Return the findings with their effects and hints, as people read them."""
    return assess({"q": old}, {"q": new}).queries["q"].findings


def contradictions(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return each note that claims no effect, paired with a stricter finding about the same place."""
    known = list(findings)
    return [
        (calm.rule, other.rule)
        for calm in known
        if calm.severity is Severity.NOTE and _SURE in calm.effect
        for other in known
        if other.severity is not Severity.NOTE and _is_about(other.where, calm.where)
    ]


def _is_about(where: str, other: str) -> bool:
    """Return whether one place is the other or a part of it."""
    return where == other or where.startswith(f"{other}, ") or other.startswith(f"{where}, ")


CASES = list(cases())


@pytest.mark.parametrize(("old", "new"), CASES)
def test_no_finding_contradicts_another(old: Manifest, new: Manifest) -> None:
    """Where a note states that a change has no effect, no other finding about the same place asks for a person or a
    switch.
    """
    assert contradictions(findings_of(old, new)) == []


@pytest.mark.parametrize(("old", "new"), CASES)
def test_every_finding_has_evidence_effect_and_a_hint_unless_a_note(old: Manifest, new: Manifest) -> None:
    """Every finding shows both texts or short evidence, has an effect, and has a hint unless it is a note."""
    for found in findings_of(old, new):
        assert ARROW in found.evidence or len(found.evidence) <= _LONGEST
        before, arrow, after = found.evidence.partition(ARROW)
        assert not arrow or before != after
        assert found.effect
        assert found.hint or found.severity is Severity.NOTE


def test_more_than_200_manifest_pairs_are_collected() -> None:
    """More than 200 pairs are collected from the tables of the rules' tests."""
    assert len(CASES) > 200


def test_a_contradiction_would_be_found() -> None:
    """Negative control: a note about a whole operator beside a breaking finding about one of its columns is found as a
    contradiction.
    """
    calm = Finding(rule="calm", severity=Severity.NOTE, where="aggregation", evidence="a -> b", effect=f"{_SURE}: so")
    alarm = Finding(rule="alarm", severity=Severity.BREAKING, where="aggregation, column s", evidence="a -> b")
    assert contradictions([calm, alarm]) == [("calm", "alarm")]
    assert contradictions([calm, msgspec.structs.replace(alarm, where="deduplication")]) == []
