"""Adds the cost of the remedy to each finding: whether a new checkpoint version reads the input again. Pure.

The deploy chooses the transition of a query (``lifecycle.transition_choice``); this module only describes it in the
findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from streamkeeper.compatibility.rehearsals import FAILURES
from streamkeeper.compatibility.rule import APPROVE, NEW_CHECKPOINT, is_stateful
from streamkeeper.model.manifests.concern import OF_SOURCES, Concern, concern_of, is_carried_over, reads_other_sources
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

READS_AGAIN = (
    "switch: a new checkpoint version reads the input again from where the current one began, builds the output anew, "
    "and takes over when it has caught up; or revert the change"
)
GOES_ON = (
    "switch: a new checkpoint version continues at the same offsets and reads no input again; or revert the change"
)
GOES_ON_ELSEWHERE = (
    "switch: a new checkpoint version continues at the same offsets, reads no input again, and writes to a new "
    "directory of the output; or revert the change"
)
WITHOUT_STATE = (
    "revert the change; or switch with accept_state_loss: a new checkpoint version continues at the same offsets with "
    "empty state: {lost}"
)
READS_AGAIN_ON_REQUEST = READS_AGAIN.replace("switch:", "switch with `--strategy rebuild`:")
"""For a finding that a person may approve: the verdict alone does not switch."""
ONLY_BACK = (
    "revert the change: a new checkpoint version would read the input again, and a function's output cannot be rebuilt "
    "beside the current one"
)

_REVERT = "revert the change"
_REFUSED = "the deploy is refused because of {rule}: follow the hint of that finding first"
_FIRST = "the deploy is refused because of {rule}: follow the hint of that finding first. After that: "
_CAUSE = "the deploy is refused because of {rule}, and this change may be its cause: revert the change"
_KEPT = ". To keep the change, follow the hint of {rule} first. After that: {hint}"
_NOT_INTENDED = "If this change is not intended, revert it"
_SWITCHES = (
    "the deploy switches because of {rule}, {asks}; if the switch rebuilds the output, a "
    f"person approves the rebuilt output before it takes over. {_NOT_INTENDED}"
)
_GOES_ON_IN_NEW = f"the deploy switches because of {{rule}}, {{asks}}. {_NOT_INTENDED}"
_GIVES_UP_STATE = (
    "the deploy is refused because of {rule}, unless it has accept_state_loss: then it switches, {asks}. "
    f"{_NOT_INTENDED}"
)
"""What a deploy does about an opaque finding beside a fatal one, and beside a breaking one: in general, if the query
keeps no state, and if a switch is possible only without the state. ``{asks}``: one of the two below.
"""
_ASKS = "after a person has approved this finding"
_ASKS_NOBODY = "without an approval of this finding"

_LOST = {
    "aggregate": "every group restarts without its earlier rows",
    "deduplicate": "rows already seen are written again if they come again",
    "join": "rows waiting for a match are lost",
    "limit": "the row count restarts at zero",
}
"""First part of an operator's kind -> the loss if its state is discarded."""

_CODE_ALONE = "its code starts without everything that it has stored"


def priced(findings: Iterable[Finding], old: Manifest, new: Manifest) -> tuple[Finding, ...]:
    """Return the findings with completed hints. A hint that recommends a new checkpoint version also states what the
    switch costs this query.

    If a finding about a source makes every switch impossible, these hints refer to that finding instead, and the
    finding ``refused-by-spark`` gets the hint of that finding. The same applies if a breaking finding requires a new
    output that a sink function cannot have. A hint that recommends an approval is replaced if a worse finding makes the
    approval useless. If a fatal finding refuses the deploy, the hint of a breaking one names the fatal finding first.
    """
    kept = tuple(findings)
    against = next((each for each in kept if reads_other_sources(each)), None)
    against = against or next((each for each in kept if _cannot_switch(each, old, new)), None)
    found = tuple(msgspec.structs.replace(each, hint=_hint(each, old, new, against)) for each in kept)
    return tuple(_after_fatal(_without_approval(each, found, old, new), found) for each in found)


def _cannot_switch(finding: Finding, old: Manifest, new: Manifest) -> bool:
    """Whether a switch would have to rebuild an output that cannot be rebuilt."""
    rebuilds = finding.severity is Severity.BREAKING and _reads_again(finding, old, new)
    return rebuilds and not capabilities_of(new.sink.kind).shadows


def _after_fatal(finding: Finding, among: Sequence[Finding]) -> Finding:
    """Return the finding; if it is breaking and a fatal one refuses the deploy, its hint names the fatal one first.

    The change itself may be the cause of a failed rehearsal: then reverting it is the first remedy.
    """
    fatal = next((each for each in among if each.severity is Severity.FATAL), None)
    if fatal is None or finding.severity is not Severity.BREAKING or not finding.hint:
        return finding
    if fatal.rule not in FAILURES:
        return msgspec.structs.replace(finding, hint=f"{_FIRST.format(rule=fatal.rule)}{finding.hint}")
    way = finding.hint.removeprefix(f"{_REVERT}; or ").removesuffix(f"; or {_REVERT}")
    keeping = "" if way.startswith(_REVERT) else _KEPT.format(rule=fatal.rule, hint=way)
    return msgspec.structs.replace(finding, hint=f"{_CAUSE.format(rule=fatal.rule)}{keeping}")


def _without_approval(finding: Finding, among: Sequence[Finding], old: Manifest, new: Manifest) -> Finding:
    """Return the finding; with another hint if it recommends an approval that a worse finding makes impossible."""
    fatal = [each for each in among if each.severity is Severity.FATAL or reads_other_sources(each)]
    breaking = [each for each in among if each.severity is Severity.BREAKING]
    if APPROVE not in finding.hint or not (fatal or breaking):
        return finding
    does = _REFUSED.format(rule=fatal[0].rule) if fatal else _beside(finding, breaking, old, new)
    return msgspec.structs.replace(finding, hint=does)


def _beside(finding: Finding, breaking: Sequence[Finding], old: Manifest, new: Manifest) -> str:
    """Return what the deploy does because of the breaking findings, which decide for all findings of the query.

    A handoff asks about a finding of what it keeps.
    """
    stateful, shadows = is_stateful(old, new), capabilities_of(new.sink.kind).shadows
    hands_off = not (shadows and stateful)
    asks = _ASKS if hands_off and is_carried_over(finding, keeps_state=stateful) else _ASKS_NOBODY
    if shadows:
        return _SWITCHES.format(rule=breaking[0].rule, asks=asks)
    again = next((each for each in breaking if _cannot_switch(each, old, new)), None)
    if again is not None:
        return _REFUSED.format(rule=again.rule)
    return (_GIVES_UP_STATE if stateful else _GOES_ON_IN_NEW).format(rule=breaking[0].rule, asks=asks)


def _hint(finding: Finding, old: Manifest, new: Manifest, against: Finding | None) -> str:
    """Return the hint with the cost of a switch; ``against``: a finding that makes every switch impossible."""
    if NEW_CHECKPOINT not in finding.hint:
        return finding.hint
    if against is not None and reads_other_sources(against):
        return against.hint if finding.rule == "refused-by-spark" else _REFUSED.format(rule=against.rule)
    if against is not None and not _cannot_switch(finding, old, new):
        return _REFUSED.format(rule=against.rule)
    return finding.hint.replace(NEW_CHECKPOINT, _cost(finding, old, new))


def _cost(finding: Finding, old: Manifest, new: Manifest) -> str:
    again = _reads_again(finding, old, new)
    sink = capabilities_of(new.sink.kind)
    if not again and not is_stateful(old, new):
        elsewhere = concern_of(finding) is Concern.OUTPUT and sink.shadows and not sink.one_place
        return GOES_ON_ELSEWHERE if elsewhere else GOES_ON
    if sink.shadows:
        return READS_AGAIN_ON_REQUEST if finding.severity is Severity.OPAQUE else READS_AGAIN
    return ONLY_BACK if again else WITHOUT_STATE.format(lost=_lost(old))


def _reads_again(finding: Finding, old: Manifest, new: Manifest) -> bool:
    """Whether a new checkpoint version because of this finding has to read the input again."""
    return concern_of(finding) in OF_SOURCES or _needs_new_output(finding, old, new)


def _lost(old: Manifest) -> str:
    lost = [_LOST.get(each.kind.partition("-")[0], _CODE_ALONE) for each in old.operators]
    return ", ".join(dict.fromkeys(lost)) or "the earlier rows are missing in it"


def _needs_new_output(finding: Finding, old: Manifest, new: Manifest) -> bool:
    if not old.sink.same_place(new.sink):
        return True
    return capabilities_of(new.sink.kind).one_place and concern_of(finding) is Concern.OUTPUT
