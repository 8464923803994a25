"""Tests of the rules about a sink function: the columns by which it may place rows, and the columns that it reads."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import CodePart, Manifest, SinkDescription, StateColumn
from tests.compatibility.manifests import AGGREGATE, STATEFUL, STATELESS, changed, with_operator

SINK = SinkDescription(kind="foreach", output="job:write", options={})
PLAN = """~Project [k#0, x#1L]
+- ~Join Inner, (k#0 = k#4)
   :- StreamingRelation FileSource, [k#0, x#1L]
   +- Relation [k#4,topic#5] csv
structure 22"""
MEANINGS = {
    "id": "md5(source 0.k)",
    "x": "source 0.x",
    "topic": "static 0.topic:string",
    "code": "pythonudf(source 0.k)",
}


def query(**meanings: str) -> Manifest:
    """Return a query with these columns, whose sink function names ``code``, ``id`` and ``topic``."""
    columns = tuple(StateColumn(name=name, meaning=text, type="string") for name, text in meanings.items())
    return changed(
        STATELESS,
        sink=SINK,
        plan=PLAN,
        columns=columns,
        output_schema="\n".join(f"{name} string" for name in meanings),
        functions={"above/0 made": "m", "above/1 rows": "r", "sink/function": "f"},
        sink_names=("orders",),
        sink_routing={"sink/function": "2:r"},
        sink_columns=("code", "id", "topic"),
    )


OLD = query(**MEANINGS)


def unlike(**meanings: str) -> Manifest:
    """Return the query with these columns redefined and a different plan."""
    other = query(**{**MEANINGS, **meanings})
    return changed(other, plan=PLAN.replace("structure 22", "structure 23").replace("~Project [", "~Project [y#9, "))


def about_columns(old: Manifest, new: Manifest) -> list[Finding]:
    return [each for each in find_changes(old, new) if each.rule == "sink-column-redefined"]


def test_a_redefined_column_named_by_the_sink_function_gives_backup() -> None:
    """A redefined column that the sink function names gives the verdict BACKUP, because it may be the row's id; the
    finding shows the column, both expressions and the effect.
    """
    new = unlike(id="sha2(source 0.k, 256)")
    (found,) = about_columns(OLD, new)
    assert found.where == "sink function, which uses column id"
    assert found.evidence == "column id: `md5(k)` → `sha2(k, 256)`"
    assert found.effect.startswith("id of new rows would be computed differently")
    assert verdict_of(find_changes(OLD, new)) is Verdict.BACKUP


def test_a_redefined_column_that_the_function_does_not_name_is_a_note() -> None:
    """A redefined column that the sink function does not name is resumed; if the function passes on whole rows, the
    verdict is BACKUP.
    """
    new = unlike(x="source 0.x * 2")
    assert about_columns(OLD, new) == []
    assert verdict_of(find_changes(OLD, new)) is Verdict.RESUME
    whole = changed(OLD, sink_columns=None), changed(new, sink_columns=None)
    (found,) = about_columns(*whole)
    assert found.where == "sink function, which uses whole rows"
    assert verdict_of(find_changes(*whole)) is Verdict.BACKUP


def summed(total: str, key: str = "source 0.k", of: str = "sum(source 0.x)") -> Manifest:
    """Return a query with state whose sink function uses all columns."""
    made = with_operator(
        STATEFUL,
        values=(msgspec.structs.replace(AGGREGATE.values[0], meaning=of),),
        upstream=f"{AGGREGATE.upstream}{of}",
    )
    columns = (("k", key), ("total", total), ("n", of))
    return changed(
        made,
        sink=SINK,
        columns=tuple(StateColumn(name=name, meaning=text, type="string", functions=()) for name, text in columns),
        functions={"sink/function": "f"},
        sink_routing={"sink/function": "2:r"},
        sink_columns=("*",),
    )


def test_columns_that_follow_from_changed_state_share_one_finding() -> None:
    """Columns computed from changed state share one opaque finding that refers to the findings about the state."""
    old, new = (
        summed("round(sum(source 0.x), 2:integer)"),
        summed("round(sum(source 0.y), 2:integer)", of="sum(source 0.y)"),
    )
    (found,) = about_columns(old, new)
    assert found.evidence == "columns n, total: computed from state that changed, see the findings about that state"
    assert found.severity is Severity.OPAQUE
    assert "aggregate-input-changed" in {each.rule for each in find_changes(old, new)}


def test_a_column_that_changes_by_itself_above_changed_state_is_shown() -> None:
    """A column that changes by itself above the state is shown with both expressions, also if the state changes too."""
    old = summed("round(sum(source 0.x), 2:integer)")
    by_itself, from_state = about_columns(old, summed("round(sum(source 0.y), 3:integer)", of="sum(source 0.y)"))
    assert by_itself.evidence == "column total: `round(sum(x), 2)` → `round(sum(y), 3)`"
    assert from_state.evidence.startswith("column n: ")
    (alone,) = about_columns(old, summed("round(sum(source 0.x), 3:integer)"))
    assert alone.evidence == "column total: `round(sum(x), 2)` → `round(sum(x), 3)`"


def test_replacing_first_by_last_still_gives_backup_for_the_sink_function() -> None:
    """Replacing ``first`` by ``last`` keeps the state, but still gives the verdict BACKUP, because the sink function
    may place rows by that column.
    """
    old, new = summed("first(source 0.x)", of="first(source 0.x)"), summed("last(source 0.x)", of="last(source 0.x)")
    assert verdict_of(find_changes(old, new)) is Verdict.BACKUP


def test_code_that_computes_columns_is_named() -> None:
    """Changed Python code that computes columns gives one finding for all of them, with the changed function's text and
    line.
    """
    old, new = (
        changed(
            query(**{**MEANINGS, "id": "pythonudf(source 0.x)"}),
            functions={**OLD.functions, "above/0 made": digest},
            parts={"job.rate": CodePart(digest=digest, text=f"return {digest}", place="job.py:3", lines=(3,))},
            reached={"above/0 made": ("job.rate",)},
        )
        for digest in "ab"
    )
    (found,) = about_columns(old, new)
    assert found.evidence == (
        "columns id, code: Python code that may compute them changed: value job.rate (job.py:3): `return a` → "
        "`return b`"
    )
    assert found.line == "job.py:3"


def test_added_or_removed_columns_are_reported_only_if_the_function_names_them() -> None:
    """An added or removed column is reported only if the sink function names it; a function that passes on whole rows
    does not depend on an added value.
    """
    more = unlike(note="source 0.y")
    assert about_columns(OLD, more) == []
    assert about_columns(changed(OLD, sink_columns=None), changed(more, sink_columns=None)) == []
    (found,) = about_columns(OLD, changed(more, sink_columns=("id", "note")))
    assert found.evidence == "column added: `note`"
    (found,) = about_columns(changed(more, sink_columns=("id", "note")), OLD)
    assert found.evidence == "column removed: `note`"


def test_a_column_that_moved_into_the_function_may_be_approved() -> None:
    """If a column was removed and the function changed, the hint and the effect except a function that computes the
    column itself, and in the reverse case one that computed it. Negative control: an unchanged function cannot.
    """
    both = changed(query(k="source 0.k", key="source 0.x", place="source 0.y"), sink_columns=("*",))
    inside = changed(
        query(k="source 0.k"), sink_columns=("*",), functions={**both.functions, "sink/function": "computes"}
    )
    (found,) = about_columns(both, inside)
    assert found.evidence == "columns removed: `key`, `place`"
    assert "rows by one of these columns, or takes the unit" in found.hint
    assert ", unless it now computes the same values itself: revert" in found.hint
    assert found.effect.endswith("should replace, unless the function now computes the same values itself")
    (back,) = about_columns(inside, both)
    assert ", unless it computed the same values itself until now: revert" in back.hint
    (alone,) = about_columns(changed(query(k="source 0.k", key="source 0.x"), sink_columns=("*",)), inside)
    assert "other values from key, unless it now computes the same key itself: revert" in alone.hint
    (same,) = about_columns(both, changed(inside, functions=both.functions))
    assert "unless" not in f"{same.hint} {same.effect}"


def test_a_renamed_column_is_reported_as_removed_if_the_function_used_it() -> None:
    """A renamed column is reported as removed if the sink function named it by the earlier name."""
    old = changed(query(key="source 0.k", x="source 0.x"), sink_columns=("key",))
    new = changed(query(k="source 0.k", x="source 0.x"), sink_columns=())
    assert [each.evidence for each in about_columns(old, new)] == ["column removed: `key`"]
    assert about_columns(changed(old, sink_columns=()), new) == []


def test_an_added_column_is_reported_if_the_key_uses_all_columns() -> None:
    """An added column is reported if the sink function computes a key from all columns, such as a hash of the row."""
    more = unlike(note="source 0.y")
    every = changed(OLD, sink_columns=("*",)), changed(more, sink_columns=("*",))
    assert [each.evidence for each in about_columns(*every)] == ["column added: `note`"]


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ({"functions": {**OLD.functions, "above/0 made": "other"}}, ["code"]),
        ({"functions": {**OLD.functions, "above/1 rows": "other"}}, ["topic"]),
        ({"plan": PLAN.replace("(k#0 = k#4)", "(k#0 = k2#6)")}, ["topic"]),
        ({"plan": PLAN.replace("structure 22", "structure 23")}, ["topic"]),
        ({"plan": PLAN.replace("~Project [k#0, x#1L]", "~Project [x#1L]").replace("22", "23")}, []),
        ({"plan": PLAN.replace("#", "#1").replace("22", "23").replace("~Project", "~Filter")}, []),
    ],
    ids=["code", "rows", "the key of a join", "what reads the same", "a projection", "a filter"],
)
def test_a_column_is_redefined_if_its_code_or_lookup_table_changed(
    change: dict[str, object], columns: list[str]
) -> None:
    """A column with the same expression counts as redefined if the code that it calls or the table that it is looked up
    in changed, and only if the sink function names it.
    """
    found = about_columns(OLD, changed(OLD, **change))
    assert [each.evidence.partition(":")[0].removeprefix("column ") for each in found] == columns
    unnamed = changed(OLD, sink_columns=()), changed(OLD, **change, sink_columns=())
    assert about_columns(*unnamed) == []


def test_several_columns_of_a_changed_static_table_read_as_one_clause() -> None:
    """The evidence about columns of a changed static table has no verb that fits only one column."""
    meanings = {**MEANINGS, "id": "static 0.id:string"}
    found = about_columns(query(**meanings), changed(query(**meanings), plan=PLAN.replace("k#4)", "k2#6)")))
    assert [each.evidence for each in found] == [
        "columns id, topic: from a static table; the table, or the join with it, changed"
    ]


def test_a_column_with_the_same_expression_may_be_computed_differently() -> None:
    """The effect on a column whose own expression is the same says that its values may differ. Negative control: the
    effect on another expression says that they would.
    """
    (same,) = about_columns(OLD, changed(OLD, functions={**OLD.functions, "above/0 made": "other"}))
    assert same.effect.startswith("code of new rows may be computed differently from code of the rows written so far")
    (other,) = about_columns(OLD, unlike(id="sha2(source 0.k, 256)"))
    assert other.effect.startswith("id of new rows would be computed differently from id of the rows written so far")


def test_only_rows_of_a_static_table_count_if_whole_rows_pass_through() -> None:
    """If the sink function passes on whole rows, a static table counts as changed only by its rows, not by the text of
    the plan.
    """
    old = changed(OLD, sink_columns=None)
    joined = changed(old, plan=PLAN.replace("(k#0 = k#4)", "(k#0 = k2#6)"))
    assert about_columns(old, joined) == []
    assert len(about_columns(old, changed(old, functions={**old.functions, "above/1 rows": "other"}))) == 1


def test_a_manifest_without_sink_columns_is_compared_by_the_candidate_columns() -> None:
    """A stored manifest without recorded sink columns is decoded, and is compared by the columns that the candidate's
    function names.
    """
    text = to_json(OLD).replace(b',"sink_columns":["code","id","topic"]', b"").replace(b',"sink_reads":{}', b"")
    stored = from_json(text, Manifest, where="stored")
    assert stored.sink_columns is None
    assert find_changes(stored, OLD) == find_changes(OLD, stored) == ()
    assert len(about_columns(stored, unlike(id="sha2(source 0.k, 256)"))) == 1
    assert about_columns(stored, unlike(x="source 0.x * 2")) == []


def test_a_column_that_the_function_reads_and_the_query_lacks_is_refused() -> None:
    """A column that the sink function reads and the query does not produce gives the verdict REFUSE with the column and
    the line.
    """
    new = changed(OLD, sink_reads={"id": "job.py:7", "GONE": "job.py:8"})
    (found,) = find_changes(OLD, new)
    assert (found.rule, found.line) == ("sink-column-missing", "job.py:8")
    assert found.evidence == "the query does not produce a column GONE"
    assert verdict_of([found]) is Verdict.REFUSE
    fewer = changed(query(id=MEANINGS["id"]), sink_reads={"X": "job.py:7"})
    assert "column removed: `X`" in [each.evidence for each in find_changes(OLD, fewer)]


def test_columns_match_without_case_and_an_already_missing_column_is_no_finding() -> None:
    """Columns are matched without regard to case, and a missing column is not reported if the deployed function reads
    it too.
    """
    assert find_changes(OLD, changed(OLD, sink_reads={"ID": "job.py:7"})) == ()
    lacks = changed(OLD, sink_reads={"gone": "job.py:7"})
    assert find_changes(lacks, changed(OLD, sink_reads={"gone": "job.py:9"})) == ()
