"""Where the candidate's changed expression is written: told where Spark knows the line of both sides. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from streamkeeper.model.finding import Finding
from streamkeeper.model.manifest import Manifest

_MOST = 2


def with_line(
    findings: Iterable[Finding], old: Manifest, new: Manifest, before: Collection[str], after: Collection[str]
) -> Iterator[Finding]:
    """The findings about meanings that became others, with the line of what is new in them."""
    line = line_of_change(old, new, before, after)
    return (msgspec.structs.replace(each, line=each.line or line) for each in findings)


def line_of_change(old: Manifest, new: Manifest, before: Collection[str], after: Collection[str]) -> str:
    """``file:line`` of the smallest expressions in ``after`` that the deployed job has written nowhere.

    Empty where that is not known of one of both jobs: an expression may stand in many lines, and only one that came
    with the change tells which of them is meant.
    """
    if not old.written:
        return ""
    known = old.written.keys()
    come = [
        each
        for each in new.written
        if each not in known and any(each in text for text in after) and not any(each in text for text in before)
    ]
    smallest = [each for each in come if not any(other != each and other in each for other in come)]
    return ", ".join(list(dict.fromkeys(new.written[each] for each in smallest))[:_MOST])
