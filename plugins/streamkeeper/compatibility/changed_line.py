"""Finds the source line of the candidate's changed expression, if Spark recorded lines for both sides. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest

_MOST = 2


def with_line(
    findings: Iterable[Finding], old: Manifest, new: Manifest, before: Collection[str], after: Collection[str]
) -> Iterator[Finding]:
    """Yield the findings. A finding without a line gets the line of the changed expression in the candidate's file.

    ``before``, ``after``: the expressions that the findings are about, in the deployed job and in the candidate.
    """
    line = line_of_change(old, new, before, after)
    return (msgspec.structs.replace(finding, line=finding.line or line) for finding in findings)


def line_of_change(old: Manifest, new: Manifest, before: Collection[str], after: Collection[str]) -> str:
    """Return ``file:line`` of the smallest expressions in ``after`` that the deployed job lacks: at most two places,
    separated by commas.

    The result is empty if there is no such expression, or if either manifest records no lines. An expression may occur
    on many lines, so only an expression that the deployed job lacks identifies the changed line.
    """
    if not old.written:
        return ""
    known = old.written.keys()
    come = [
        expression
        for expression in new.written
        if expression not in known
        and any(expression in text for text in after)
        and not any(expression in text for text in before)
    ]
    smallest = [
        expression for expression in come if not any(other != expression and other in expression for other in come)
    ]
    return ", ".join(list(dict.fromkeys(new.written[expression] for expression in smallest))[:_MOST])
