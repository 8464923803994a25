"""Tests of findings about expressions that stay the same, while their input is read with another schema."""

from __future__ import annotations

import json

import pytest

from streamkeeper.compatibility.assess import assess
from streamkeeper.compatibility.effects import BREAKING, OPAQUE
from streamkeeper.compatibility.effects_of_notes import NOTES
from streamkeeper.compatibility.other_schemas import EFFECTS
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest, Operator, StateColumn
from tests.compatibility.internals import SPEAKS_INTERNALS
from tests.compatibility.manifests import AGGREGATE, JOIN, changed, with_state


def parsed(text: str, sent: str) -> str:
    """Return an expression over JSON text in which the field ``sent`` has this type; ``{}`` stands for the parser."""
    types = {"qty": "integer", "fee": "integer", "place": "string", "sent": sent}
    fields = [{"metadata": {}, "name": name, "nullable": True, "type": kind} for name, kind in types.items()]
    schema = json.dumps({"fields": fields, "type": "struct"}, separators=(",", ":"))
    return text.replace("{}", f"fromjson(source 0.value, in session, schema={schema}, options=m[])")


def sides(operator: Operator, fields: dict[str, list[str]], names: tuple[str, ...] = ()) -> tuple[Manifest, Manifest]:
    """Return two manifests of an operator whose given parts parse the field ``sent`` as a string or a timestamp.

    ``fields``: the part's name -> its expressions; ``names``: the output columns that are equal to its values.
    """
    found = []
    for sent in ("string", "timestamp"):
        parts = {
            part: tuple(
                parsed(text, sent)
                if part in ("rows", "shape")
                else StateColumn(meaning=parsed(text, sent), type="long", name=f"c{number}")
                for number, text in enumerate(texts)
            )
            for part, texts in fields.items()
        }
        values = parts.get("values", ())
        columns = [
            StateColumn(meaning=each.meaning, type="bigint", name=name, functions=())
            for name, each in zip(names, values, strict=False)
            if isinstance(each, StateColumn)
        ]
        manifest = with_state(operator, **parts, upstream=f"{operator.upstream} {sent}")
        found.append(changed(manifest, columns=(*manifest.columns[:1], *columns)))
    return found[0], found[1]


def findings(old: Manifest, new: Manifest) -> dict[str, Finding]:
    """Return the findings about the change by rule."""
    return {each.rule: each for each in assess({"q": old}, {"q": new}).queries["q"].findings}


CODE = Operator(
    kind="pandas-with-state",
    keys=("k string",),
    expressions=(),
    upstream=AGGREGATE.upstream,
    key_columns=AGGREGATE.key_columns,
    resolved=True,
)


@pytest.mark.parametrize(
    ("operator", "part", "text", "rule"),
    [
        (AGGREGATE, "key_columns", "{}.place", "grouping-key-changed"),
        (AGGREGATE, "values", "sum({}.qty)", "aggregate-input-changed"),
        (AGGREGATE, "rows", "isnotnull({}.qty)", "filter-below-state-changed"),
        (AGGREGATE, "shape", "join Inner on equalto({}.place, source 1.k)", "upstream-changed"),
        (JOIN, "rows", "lessthan(3:long, {}.qty)", "filter-below-join-changed"),
        (JOIN, "values", "{}.place", "join-column-changed"),
        (AGGREGATE, "key_columns", "window({}.place, 600000000:long)", "window-changed"),
        (CODE, "values", "{}.qty", "input-of-stateful-code-changed"),
        (CODE, "rows", "lessthan(3:long, {}.qty)", "filter-below-code-changed"),
    ],
)
def test_the_effect_says_that_only_the_schema_differs(operator: Operator, part: str, text: str, rule: str) -> None:
    """If an expression is the same and only the schema of its parser differs, the effect does not mention a new
    expression, key or filter. Negative control: another expression has the usual effect.
    """
    old, new = sides(operator, {part: [text]})
    finding = findings(old, new)[rule]
    assert "which is read with another schema: field sent: `string` → `timestamp`" in finding.evidence
    assert "schema" in finding.effect
    assert "new expression" not in finding.effect
    assert "the old key" not in finding.effect
    assert "the new filter" not in finding.effect
    # Negative control: the same rule about another expression.
    _, other = sides(operator, {part: [text.replace("qty", "fee").replace("place", "sent")]})
    assert "schema" not in findings(old, other)[rule].effect


def test_aggregates_with_the_same_changed_schema_have_one_finding() -> None:
    """Aggregates that differ only in the same change of a schema are reported together, with their columns."""
    texts = ["sum({}.qty)", "max({}.fee)", "count({}.place)"]
    old, new = sides(AGGREGATE, {"values": texts}, ("pieces", "fees", "places"))
    found = [each for each in assess({"q": old}, {"q": new}).queries["q"].findings if each.severity.value == "breaking"]
    (finding,) = found
    assert finding.where == "aggregation, columns pieces, fees and 1 more"
    assert finding.evidence == (
        "`sum(qty)`, `max(fee)`, `count(place)`, which are read with another schema: field sent: `string` → `timestamp`"
    )
    assert finding.effect == (
        "`pieces`, `fees` and 1 more of groups in the state would combine old values with new ones, if the same "
        "expression gives other values under the new schema"
    )


def test_every_sentence_about_another_schema_is_short_and_replaces_one() -> None:
    """Every sentence is at most 180 characters long, belongs to a known rule and contains no internal notation."""
    for rule, text in EFFECTS.items():
        shown = text.format(name="`pieces`", groups="groups in the state")
        assert len(shown) <= 180, rule
        assert not SPEAKS_INTERNALS.search(shown), rule
        assert rule in {*BREAKING, *OPAQUE, *NOTES}, rule
