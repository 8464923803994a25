"""Tests that the text of a finding is still correct beside the other findings of its query."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.among_others import ALONE, UNLESS_FAILED
from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.rehearsals import rehearsal_failed
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import StateColumn
from tests.compatibility.manifests import JOIN, STATEFUL, changed, with_operator, with_state

REFUSED = rehearsal_failed("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "seen", 1, again=True)
ASKED = Finding(rule="unknown-operator", severity=Severity.OPAQUE, where="plan", evidence="seen", hint="h")


def findings_with(*observed: Finding) -> dict[str, Finding]:
    """Return the findings about a changed trigger and a changed join key, beside the observed ones."""
    old = with_state(JOIN)
    key = (StateColumn(meaning="equalto(source 0.g, source 1.g)", type=""),)
    new = changed(with_operator(old, key_columns=key), trigger="1 second")
    return {each.rule: each for each in assess({"q": old}, {"q": new}, {"q": observed}).queries["q"].findings}


@pytest.mark.parametrize(
    ("observed", "hint"),
    [((), "no action is needed if this is intended"), ((ASKED,), f"{ALONE} if this is intended")],
)
def test_a_note_claims_only_its_own_change_if_findings_stop_the_deploy(
    observed: tuple[Finding, ...], hint: str
) -> None:
    """Beside a finding that stops the deploy, a note no longer claims that no action is needed, but that its own change
    alone needs none.
    """
    new = changed(STATEFUL, trigger="1 second")
    found = assess({"q": STATEFUL}, {"q": new}, {"q": observed}).queries["q"].findings
    assert next(each for each in found if each.rule == "trigger-changed").hint == hint


def test_effects_on_rows_are_conditional_if_the_rehearsal_failed() -> None:
    """If the rehearsal failed, effects on rows are worded as conditional on a query that does not fail, and the effect
    of the failure is not.
    """
    for rule in ("join-key-changed", "trigger-changed"):
        assert findings_with(REFUSED)[rule].effect == f"{UNLESS_FAILED}{findings_with()[rule].effect}"
    assert findings_with(REFUSED)["refused-by-spark"].effect.startswith("the query would fail")


def test_an_effect_that_states_the_failure_stays_unconditional() -> None:
    """An effect that states the failure itself stays unconditional beside a failed rehearsal."""
    old = with_state(JOIN)
    new = with_operator(old, values=JOIN.values[:1])
    found = assess({"q": old}, {"q": new}, {"q": (REFUSED,)}).queries["q"].findings
    assert {each.effect.partition(",")[0] for each in found if each.rule == "join-column-removed"} == {
        "Spark would reject the state"
    }
