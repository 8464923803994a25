"""The declarations in a job's file, read from its text; no code is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from streamkeeper.errors import JobUnusable
from streamkeeper.model.settings.approvers import check_approvers

APPROVERS_HINT = 'write the list as a literal in the declaration of the job: approvers=["ada", "cli:bob"]'


def declarations(tree: ast.Module, job: str) -> Iterator[dict[str | None, ast.expr]]:
    """Yield the keyword arguments of each ``streaming_job(…)`` of this job, or of a job whose name is not a literal."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node.func) != "streaming_job":
            continue
        arguments = {each.arg: each.value for each in node.keywords}
        named = arguments.get("name")
        if not (isinstance(named, ast.Constant) and named.value != job):
            yield arguments


def read_approvers(source: str | bytes, job: str, *, where: str) -> tuple[str, ...]:
    """Return the approvers in ``@streaming_job(name=job, approvers=[...])``; empty without the argument.

    ``load_job`` compares these approvers with the result of running the file. Raises JobUnusable for a value that is
    not a literal (naming file and line) and for two declarations that differ, and InvalidInput for a list without
    names.
    """
    found: list[tuple[str, ...]] = []
    for declared in declarations(ast.parse(source), job):
        approvers = declared.get("approvers")
        found.append(() if approvers is None else _written_out(approvers, job, where))
    if len(set(found)) > 1:
        raise JobUnusable(f"{where} declares job {job} more than once, with different approvers", hint=APPROVERS_HINT)
    return found[0] if found else ()


def _written_out(expression: ast.expr, job: str, where: str) -> tuple[str, ...]:
    try:
        names = ast.literal_eval(expression)
    except (ValueError, TypeError):
        raise JobUnusable(
            f"{where}:{expression.lineno}: the approvers of job {job} are not a literal in its file",
            hint=APPROVERS_HINT,
        ) from None
    return () if names is None else check_approvers(f"{where}:{expression.lineno}: the list of approvers", names)


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
