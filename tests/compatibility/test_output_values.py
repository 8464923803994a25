"""Tests of the findings about a changed column above the state: what happens to rows already written."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest, StateColumn
from tests.compatibility.manifests import AGGREGATE, JOIN, STATEFUL, STATELESS, changed, with_operator

ABOVE = {"plan": "~Project [k#0, (s#2L * 100) AS s#3L]\n+- " + STATEFUL.plan}


def in_cents(manifest: Manifest, meaning: str = "multiply(100:long, sum(source 0.x))") -> Manifest:
    """Return the manifest with its column ``s`` in a different unit."""
    value = msgspec.structs.replace(manifest.columns[1], meaning=meaning)
    return changed(manifest, columns=(manifest.columns[0], value), **ABOVE)


@pytest.mark.parametrize(
    ("mode", "effect"),
    [
        ("update", "new results would have the new s; groups without new rows keep the old s in the output"),
        ("append", "new results would have the new s; rows already written keep the old s"),
        ("complete", "the next batch would write every group again, with the new s"),
    ],
)
def test_a_redefined_value_column_note_states_which_rows_keep_old_values(mode: str, effect: str) -> None:
    """A redefined value column is the only finding, a note whose effect states which rows keep the old value in each
    output mode.
    """
    old = changed(STATEFUL, output_mode=mode)
    (finding,) = find_changes(old, in_cents(old))
    assert (finding.rule, finding.effect) == ("output-column-redefined", effect)
    assert (finding.where, finding.evidence) == ("output column s", "`sum(x)` → `sum(x) * 100`")
    assert verdict_of([finding]) is Verdict.RESUME


def test_a_changed_filter_and_a_redefined_column_give_two_findings() -> None:
    """A changed filter beside a redefined column, or filters that are not recorded, gives a second finding about the
    plan.
    """
    filtered = changed(in_cents(STATEFUL), output_rows=(*(STATEFUL.output_rows or ()), "lessthan(3:long, s)"))
    unknown = changed(in_cents(STATEFUL), output_rows=None)
    for new in (filtered, unknown):
        assert [each.rule for each in find_changes(STATEFUL, new)] == ["output-column-redefined", "above-state-changed"]


def test_a_column_redefined_by_an_aggregate_is_reported_only_by_the_aggregate() -> None:
    """A column that is redefined by a changed aggregate is reported only by the finding about the aggregate."""
    other = with_operator(STATEFUL, values=(StateColumn(meaning="sum(source 0.y)", type="long"),))
    new = changed(
        other, columns=(STATEFUL.columns[0], msgspec.structs.replace(STATEFUL.columns[1], meaning="sum(source 0.y)"))
    )
    assert [each.rule for each in find_changes(STATEFUL, new)] == ["aggregate-input-changed"]


def test_a_changed_cast_above_a_changed_state_refers_to_the_finding_about_the_state() -> None:
    """A changed cast above a changed aggregate is noted with a reference to the finding about the state, instead of
    stating that no action is needed.
    """
    other = with_operator(STATEFUL, values=(StateColumn(meaning="sum(source 0.y)", type="string"),))
    column = msgspec.structs.replace(STATEFUL.columns[1], meaning="cast(sum(source 0.y), dataType=long)")
    findings = find_changes(STATEFUL, changed(other, columns=(STATEFUL.columns[0], column), **ABOVE))
    (found,) = [each for each in findings if each.rule == "output-column-redefined"]
    assert found.effect.endswith("; the change also redefines a value in the state, which another finding reports")
    assert found.hint == "follow the finding about the state"
    assert verdict_of(findings) is Verdict.SWITCH
    (alone,) = find_changes(STATEFUL, in_cents(STATEFUL))
    assert "another finding" not in alone.effect


@pytest.mark.parametrize(
    ("mode", "effect"),
    [
        ("update", "new results would have another s, if the stateful code now returns one; groups without new rows"),
        ("append", "new results would have another s, if the stateful code now returns one; rows already written"),
        ("complete", "the next batch would write every group again, with another s if the stateful code now returns"),
    ],
)
def test_a_result_of_stateful_code_is_redefined_only_perhaps(mode: str, effect: str) -> None:
    """The effect on a result of stateful code is conditional, because the code may return the same values. If only
    names in the state's type differ, it says that the stored state stays. Negative controls: another type, names that
    only moved to other fields, and a literal that resembles a state's type.
    """
    field = '{"metadata":{},"name":"%s","nullable":true,"type":"%s"}'
    code = 'FlatMapGroupsInPandasWithState(func=0, stateType={"fields":[%s],"type":"struct"}, outputMode=Update)[0]'
    old = in_cents(changed(STATEFUL, output_mode=mode), code % (field % ("sums", "long")))
    renamed = changed(in_cents(old, code % (field % ("amounts", "long"))), plan=f"{old.plan} ")
    (found,) = [each for each in find_changes(old, renamed) if each.rule == "output-column-redefined"]
    assert found.effect.startswith(effect)
    assert found.effect.endswith("; the stored state stays: Spark reads its fields by position, not by name")
    other = changed(in_cents(old, code % (field % ("sums", "double"))), plan=f"{old.plan} ")
    (found,) = [each for each in find_changes(old, other) if each.rule == "output-column-redefined"]
    assert "by position" not in found.effect
    two, swapped = (",".join(field % (name, "long") for name in names) for names in (("a", "b"), ("b", "a")))
    old = in_cents(changed(STATEFUL, output_mode=mode), code % two)
    moved = changed(in_cents(old, code % swapped), plan=f"{old.plan} ")
    (found,) = [each for each in find_changes(old, moved) if each.rule == "output-column-redefined"]
    assert "by position" not in found.effect
    literal = code.replace("stateType={", "stateType={x") % two
    odd = changed(in_cents(old, literal), plan=f"{old.plan} ")
    (found,) = [each for each in find_changes(old, odd) if each.rule == "output-column-redefined"]
    assert "by position" not in found.effect


def test_a_column_from_state_above_another_state_may_combine_old_and_new_values() -> None:
    """If a column comes from an aggregation above a join whose state differs, its effect says that groups in the state
    may combine both. Negative control: a change above an equal state.
    """
    total = msgspec.structs.replace(AGGREGATE, values=(StateColumn(meaning="max(source 1.note)", type="string"),))
    joined = msgspec.structs.replace(JOIN, values=(*JOIN.values, StateColumn(meaning="source 1.note", type="string")))
    old = in_cents(changed(STATEFUL, operators=(joined, total), output_mode="append"), "max(source 1.note)")
    other = msgspec.structs.replace(total, values=(StateColumn(meaning="max(source 0.g)", type="string"),))
    new = in_cents(changed(old, operators=(JOIN, other)), "max(source 0.g)")
    (found,) = [each for each in find_changes(old, new) if each.rule == "output-column-redefined"]
    assert found.effect == (
        "new results would have the new s; rows already written keep the old s; results from rows already in the state "
        "may still have the old s, or combine both"
    )
    above = in_cents(old, "upper(max(source 1.note))")
    (found,) = [each for each in find_changes(old, above) if each.rule == "output-column-redefined"]
    assert "combine" not in found.effect


def test_a_column_with_an_unknown_expression_is_covered_by_the_changed_plan() -> None:
    """Control: a column with an unknown expression counts as unchanged, and the changed plan is reported instead."""
    assert [each.rule for each in find_changes(STATEFUL, in_cents(STATEFUL, "?s"))] == ["above-state-changed"]


def test_a_redefined_column_without_state_is_a_stateless_change() -> None:
    """A redefined column of a query without state is reported as a stateless change."""
    new = changed(in_cents(STATELESS, "multiply(2:long, source 0.x)"), plan=f"{STATELESS.plan} ")
    assert [each.rule for each in find_changes(STATELESS, new)] == ["stateless-change"]


def test_an_added_filter_above_renamed_state_columns_is_reported() -> None:
    """An added filter above the state is reported although the state's text differs only by names; renamed columns
    alone are reported as rewritten.
    """
    renamed = with_operator(STATEFUL, keys=("a string",))
    new = changed(renamed, output_rows=(*(STATEFUL.output_rows or ()), "lessthan(3:long, s)"))
    (finding,) = find_changes(STATEFUL, new)
    assert finding.rule == "above-state-changed"
    assert "a result that is not written again stays in the output" in finding.effect
    assert [each.rule for each in find_changes(STATEFUL, renamed)] == ["rewritten-below-state"]
