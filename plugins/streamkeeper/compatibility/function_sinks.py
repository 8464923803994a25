"""Rules about sink functions: where rows go, by which columns, and which columns the function reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from streamkeeper.compatibility.changed_line import with_line
from streamkeeper.compatibility.code_changes import CodeChange, code_change
from streamkeeper.compatibility.function_names import names_of_both
from streamkeeper.compatibility.output_columns import output_columns, redefined_columns, told_by_state
from streamkeeper.compatibility.parser_schemas import changed_schema
from streamkeeper.compatibility.rule import APPROVE, Rule, is_rows, same_context
from streamkeeper.compatibility.shown import change, expression_change
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import (
    ABOVE_STATE,
    ALL_COLUMNS,
    SINK_FUNCTION,
    UNREADABLE,
    Manifest,
    columns_of,
)

_MOST_NAMES, _MOST_TEXTS, _LONGEST = 12, 2, 60
_WORD = re.compile(r"\w\w")
_UNKNOWN = "the function holds an object that cannot be compared"
_FROM_STATE = "computed from state that changed, see the findings about that state"
_BY_CODE = "Python code that may compute {them} changed"
_OTHER_TABLE = "from a static table; the table, or the join with it, changed"
_ELSEWHERE = (
    "approve if the function writes the same rows to the same place, or if new batches are meant to be written in the "
    "new way while earlier rows stay as they are; otherwise revert the change"
)
_NUMBER = re.compile(r"#\d+L?")
_PYTHON = re.compile(r"pythonud[ft]f?\(|pythonudaf\(|InPandas\(|InArrow\(|MapIn|\?", re.IGNORECASE)
_STATIC = re.compile(r"\bstatic \d")
_JOIN = re.compile(r"~?Join\b")
_STRUCTURE = "structure "
_OF_STREAMS = ("~", "StreamingRelation", _STRUCTURE)


def sink_function_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a sink function that changed only in logging, in tuning or in a filter over all of its rows."""
    for name, _, _ in _changed(old, new):
        if _routes_alike(name, old, new):
            changed = code_change(name, old, new)
            yield Finding(
                rule="sink-function-changed",
                line=changed.line,
                severity=Severity.NOTE,
                where=sink_function_called(name),
                evidence=changed.evidence,
                hint="no action is needed if the function tolerates a repeated batch; otherwise let it skip a batch "
                "that it has written, which has the same `version` and `batch_id` in its context",
            )


def sink_function_may_write_elsewhere(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed sink function that may write to another table or path, where the old rows would be missing.

    The finding is opaque rather than breaking. The code does not show which of its string literals are outputs, keys
    or values, and the output of a function cannot be read to find out.
    """
    before, after = set(old.sink_names or ()), set(new.sink_names or ())
    for name, had, has in _changed(old, new):
        if had is None or has is None or _routes_alike(name, old, new):
            continue
        changed = code_change(name, old, new)
        unseen = (texts := _first(sorted(before ^ after))) and not any(each in changed.evidence for each in texts)
        named = change(_first(sorted(before - after)), _first(sorted(after - before)), "text in the code")
        evidence = f"{changed.evidence}; {named}" if unseen else changed.evidence
        yield Finding(
            rule="sink-function-may-write-elsewhere",
            line=changed.line,
            severity=Severity.OPAQUE,
            where=sink_function_called(name),
            evidence=evidence,
            hint=f"{APPROVE}; {_ELSEWHERE}",
        )


def sink_function_unreadable(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a sink function whose destination may be inside an object that cannot be inspected, such as an open
    connection.
    """
    if same_context(old, new):
        return
    before = _functions(old)
    for name, digest in _functions(new).items():
        if name in before and UNREADABLE in (digest[: len(UNREADABLE)], before[name][: len(UNREADABLE)]):
            yield Finding(
                rule="sink-function-unreadable",
                severity=Severity.OPAQUE,
                where=sink_function_called(name),
                evidence=_UNKNOWN,
                hint=f"{APPROVE}. To let later checks compare the function, create its connections inside the function",
            )


def sink_column_redefined(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a column whose expression changed, if the sink function may identify, route or partition rows by this
    column, or take the unit of other values from it.

    If the function's code names its columns, only the named columns count. If the code passes whole rows on, every
    column that existed before counts. An added or removed column counts if the code names it, even if another column
    has the same expression.
    """
    if not (_functions(old) and _functions(new)):
        return
    before = {column.name: column.meaning for column in old.columns}
    after = {column.name: column.meaning for column in new.columns}
    named = {name for name in before.keys() ^ after.keys() if name in _named(old, new)}
    from_state, went, came = list[str](), list[str](), list[str]()
    for name in sorted(redefined_columns(old, new) | named):
        if not _may_use(name, old, new) or _lacks(name, new):
            continue
        if name not in before or name not in after:
            (came if name in output_columns(new) else went).append(name)
            continue
        if told_by_state(before[name], after[name], old, new, keys_alone=False):
            from_state.append(name)
            continue
        evidence = expression_change(before[name], after[name], f"column {name}", names_of_both(old, new))
        perhaps = bool(changed_schema(before[name], after[name]))
        found = _redefined([name], old, new, evidence, perhaps=perhaps)
        yield from with_line([found], old, new, [before[name]], [after[name]])
    for names in _by_use(went, old, new):
        yield _redefined(names, old, new, change(names, "", "column"))
    for names in _by_use(came, old, new):
        found = _redefined(names, old, new, change("", names, "column"))
        yield from with_line([found], old, new, [], [after.get(name, "") for name in names])
    for names in _by_use(from_state, old, new):
        yield _redefined(names, old, new, f"{_columns(names)}: {_FROM_STATE}", perhaps=True)


def sink_column_may_be_redefined(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a column whose values may differ although its expression is unchanged, because its Python code or its
    static table changed.

    The texts of two plans do not show whether a static table itself changed or only something near it, such as a join.
    Therefore a table that seems changed counts only for columns that the sink function names.
    """
    if not (_functions(old) and _functions(new)):
        return
    known = redefined_columns(old, new)
    before = {column.name: column.meaning for column in old.columns}
    code, rows, tables = _code_differs(old, new), _rows_differ(old, new), _tables_differ(old, new)
    by_code: list[str] = []
    by_table: list[str] = []
    for column in new.columns:
        if column.name in known or column.name not in before or not _may_use(column.name, old, new):
            continue
        meanings = f"{before[column.name]} {column.meaning}"
        if code and _PYTHON.search(meanings):
            by_code.append(column.name)
        elif (rows or (tables and column.name in _named(old, new))) and _STATIC.search(meanings):
            by_table.append(column.name)
    for names in _by_use(by_code, old, new):
        changed = _changed_code(names, old, new)
        by = _BY_CODE.format(them="them" if len(names) > 1 else "it")
        yield _redefined(names, old, new, f"{_columns(names)}: {by}: {changed.evidence}", changed.line, perhaps=True)
    for names in _by_use(by_table, old, new):
        yield _redefined(names, old, new, f"{_columns(names)}: {_OTHER_TABLE}", perhaps=True)


def sink_column_missing(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a column that the sink function reads and the query does not produce. The first batch with rows would
    fail.
    """
    produced = {name.casefold() for name, _ in columns_of(new.output_schema)}
    function = next(iter(_functions(new)), "")
    for name, line in new.sink_reads.items():
        # If the deployed function seems to lack the column as well and still runs, the column comes from elsewhere.
        if name.casefold() not in produced and not _lacks(name, old):
            had = any(name.casefold() == before.casefold() for before, _ in columns_of(old.output_schema))
            yield Finding(
                rule="sink-column-missing",
                severity=Severity.FATAL,
                line=line,
                where=f"{sink_function_called(function)}, column {name}",
                evidence=change(name, "", "column") if had else f"the query does not produce a column {name}",
                hint=f"add a column {name} to the query, or do not read it in the function",
            )


RULES: tuple[Rule, ...] = (
    sink_function_changed,
    sink_function_may_write_elsewhere,
    sink_function_unreadable,
    sink_column_redefined,
    sink_column_may_be_redefined,
    sink_column_missing,
)


def _by_use(names: Sequence[str], old: Manifest, new: Manifest) -> Iterator[Sequence[str]]:
    """Yield the columns that the function names, then the other columns, so that each group gets one finding."""
    named = _named(old, new)
    yield from filter(None, ([name for name in names if name in named], [name for name in names if name not in named]))


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {_each(names)}"


def _each(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _changed_code(names: Sequence[str], old: Manifest, new: Manifest) -> CodeChange:
    """Return the change in the functions that compute these columns. If none of them changed, return the change in any
    function of the plan.
    """
    columns = output_columns(new)
    computing = {function for name in names for function in columns[name].functions or ()}
    before, after = _plan_code(old, new)
    had = {name.partition(" ")[0]: digest for name, digest in before.items()}
    changed = [name for name, digest in after.items() if had.get(name.partition(" ")[0]) != digest]
    removed = [name for name in before if name not in after]
    return code_change([*(name for name in changed if name in computing), *changed, *removed, *after][0], old, new)


def _redefined(
    names: Sequence[str], old: Manifest, new: Manifest, evidence: str, line: str = "", *, perhaps: bool = False
) -> Finding:
    """Return the finding. ``perhaps``: whether the columns may have the same values as before, because their
    expressions are the same, or are computed from changed state.
    """
    of = names[0] if len(names) == 1 else "one of these columns"
    does = f"uses {_columns(names)}" if names[0] in _named(old, new) else "uses whole rows"
    uses = f"identifies or routes rows by {of}, or takes the unit of other values from {of}"
    inside = _computed_inside(names, old, new)
    unless, but = (f", unless it {inside}", f", unless the function {inside}") if inside else ("", "")
    return Finding(
        rule="sink-column-redefined",
        line=line,
        severity=Severity.OPAQUE,
        where=f"{sink_function_called(next(iter(_functions(new))))}, which {does}",
        evidence=evidence,
        hint=f"{APPROVE}. Do not approve if the function {uses}{unless}: revert the change instead, because a new "
        "checkpoint version does not change the rows that the function has already written",
        effect=f"{_differs(names, old, new, perhaps=perhaps)}. If the function {uses}, new rows would go to another "
        f"place or duplicate rows that they should replace{but}",
    )


def _computed_inside(names: Sequence[str], old: Manifest, new: Manifest) -> str:
    """Return a clause on how a changed function may make up for a column that the query gained or lost; empty if it
    cannot. A column may have moved between the query and the function.
    """
    if not any(had and has for _, had, has in _changed(old, new)):
        return ""
    same = names[0] if len(names) == 1 else "values"
    if names[0] not in output_columns(new):
        return f"now computes the same {same} itself"
    return f"computed the same {same} itself until now" if names[0] not in output_columns(old) else ""


def _differs(names: Sequence[str], old: Manifest, new: Manifest, *, perhaps: bool) -> str:
    """Return a text on how these columns of new rows would differ from those of the rows written so far."""
    listed = _each(names)
    if names[0] not in output_columns(new):
        return f"new rows would lack {listed}, which the rows written so far have"
    if names[0] not in output_columns(old):
        return f"new rows would have {listed}, which the rows written so far lack"
    how = f"{'may' if perhaps else 'would'} be computed differently"
    those = listed if len(names) == 1 else "those"
    return f"{listed} of new rows {how} from {those} of the rows written so far"


def _lacks(name: str, manifest: Manifest) -> bool:
    """Whether the function reads a column that its query does not produce."""
    produced = {column.casefold() for column, _ in columns_of(manifest.output_schema)}
    return name.casefold() not in produced and any(name.casefold() == each.casefold() for each in manifest.sink_reads)


def _named(*manifests: Manifest) -> frozenset[str]:
    return frozenset(name for manifest in manifests for name in manifest.sink_columns or ())


def _may_use(name: str, old: Manifest, new: Manifest) -> bool:
    """Whether the sink's functions may use a column as more than a value.

    For a release whose description does not record this, the candidate's record decides, because changed code requires
    an approval anyway.
    """
    if name in _named(old, new) or ALL_COLUMNS in _named(new):
        return True
    had = any(column == name for column, _ in columns_of(old.output_schema))
    return new.sink_columns is None and had


def _code_differs(old: Manifest, new: Manifest) -> bool:
    """Whether Python code of the plan differs in places where such a difference, taken by itself, does not require an
    approval.
    """
    before, after = _plan_code(old, new)
    return list(before.values()) != list(after.values())


def _plan_code(*manifests: Manifest) -> Iterator[dict[str, str]]:
    """Yield, for each manifest, the digest by name of each function above the plan's state, and of each function whose
    result is only carried through deduplications.
    """
    carried = {name for manifest in manifests for name in manifest.carried}
    for manifest in manifests:
        found = {name: digest for name, digest in manifest.functions.items() if not is_rows(name)}
        yield {name: digest for name, digest in found.items() if name.startswith(ABOVE_STATE) or name in carried}


def _rows_differ(old: Manifest, new: Manifest) -> bool:
    """Whether the rows that the job creates differ."""
    rows = [{name: digest for name, digest in each.functions.items() if is_rows(name)} for each in (old, new)]
    return rows[0] != rows[1]


def _tables_differ(old: Manifest, new: Manifest) -> bool:
    """Whether static tables, or the joins with them, differ.

    If two plans differ although their texts are equal, the difference may be the place of a table.
    """
    texts = [[line for line in each.plan.splitlines() if not line.startswith(_STRUCTURE)] for each in (old, new)]
    reads_alike = texts[0] == texts[1] and old.plan != new.plan
    return reads_alike or _shape(old.plan) != _shape(new.plan)


def _shape(plan: str) -> list[str]:
    """Return the lines of a plan that are not about its streams, and its joins, without column numbers."""
    lines = [re.sub(r"^[:\s+\-|]*", "", line) for line in plan.splitlines()]
    kept = [line for line in lines if _JOIN.match(line) or not line.startswith(_OF_STREAMS)]
    return sorted(_NUMBER.sub("", line) for line in kept)


def _changed(old: Manifest, new: Manifest) -> Iterator[tuple[str, str | None, str | None]]:
    before, after = _functions(old), _functions(new)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _functions(manifest: Manifest) -> dict[str, str]:
    return {name: digest for name, digest in manifest.functions.items() if name.startswith(SINK_FUNCTION)}


def sink_function_called(name: str) -> str:
    """Return the name by which a finding calls a sink function."""
    shown = name.removeprefix(SINK_FUNCTION)
    return "sink function" if shown == "function" else f"sink function {shown}"


def _routes_alike(name: str, old: Manifest, new: Manifest) -> bool:
    """Whether the code that may decide where a sink function's rows go is unchanged."""
    before, after = (old.sink_routing or {}).get(name), (new.sink_routing or {}).get(name)
    return before is not None and before == after


def _first(names: Sequence[str]) -> Sequence[str]:
    """The first few meaningful names, each cut to a readable length."""
    shown = [name for name in names if _WORD.search(name) and not name.startswith("__")][:_MOST_TEXTS]
    return [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name in shown]
