"""What the way of a changed query costs: whether a new checkpoint version reads its input again. Pure.

The deploy chooses the way (``lifecycle.ways``); here it is told beside each finding that asks for one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from streamkeeper.compatibility.rule import NEW_CHECKPOINT, is_stateful
from streamkeeper.model.finding import Finding
from streamkeeper.model.manifest import Manifest

READS_AGAIN = (
    "switch: a new checkpoint version reads its input again from where this one began, and serves when it has caught "
    "up; or take the change back"
)
GOES_ON = (
    "switch: a new checkpoint version goes on at the same offsets and reads nothing again; or take the change back"
)
WITHOUT_STATE = (
    "take the change back, for what a function writes cannot be rebuilt unseen; or switch with accept_state_loss: a "
    "new checkpoint version goes on at the same offsets with empty state"
)
ONLY_BACK = "take the change back: what a function writes cannot be rebuilt unseen"

_REMADE = frozenset({"file", "table"})
"""Kinds of sinks that can be written beside the one that serves."""


def priced(findings: Iterable[Finding], old: Manifest, new: Manifest) -> tuple[Finding, ...]:
    """The findings, each of which that asks for a new checkpoint version says what that costs this query."""
    return tuple(
        msgspec.structs.replace(each, hint=each.hint.replace(NEW_CHECKPOINT, _cost(each, old, new)))
        if NEW_CHECKPOINT in each.hint
        else each
        for each in findings
    )


def _cost(finding: Finding, old: Manifest, new: Manifest) -> str:
    again = finding.where.startswith("source") or _needs_new_output(finding, old, new)
    if not again and not is_stateful(old, new):
        return GOES_ON
    if new.sink.kind in _REMADE:
        return READS_AGAIN
    return ONLY_BACK if again else WITHOUT_STATE


def _needs_new_output(finding: Finding, old: Manifest, new: Manifest) -> bool:
    if (old.sink.kind, old.sink.output) != (new.sink.kind, new.sink.output):
        return True
    about_output = finding.rule.startswith(("sink-option", "output-column")) or finding.rule == "output-does-not-fit"
    return new.sink.kind == "table" and about_output
