"""Adds the cost of the remedy to each finding: whether a new checkpoint version reads the input again. Pure.

The deploy chooses the transition of a query (``lifecycle.transition_choice``); this module only describes it in the
findings, from the same reasons (``model.manifests.switching``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from streamkeeper.compatibility.effects import IF_INTENDED, NO_ACTION
from streamkeeper.compatibility.rehearsals import FAILURES, OUTPUT_DOES_NOT_FIT
from streamkeeper.compatibility.rule import APPROVE, AS_NEW_QUERY, NEW_CHECKPOINT, NO_SWITCH, RECOMPUTE
from streamkeeper.model.manifests.concern import Concern, concern_of, is_carried_over, reads_other_sources
from streamkeeper.model.manifests.finding import Finding, Severity, Switch, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest, is_stateful
from streamkeeper.model.manifests.switching import (
    ENDS_TOO_EARLY,
    is_about_offsets,
    needs_new_rows,
    why_no_handoff,
    why_no_rebuild,
)
from streamkeeper.model.manifests.trigger import parse_trigger
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sources.known_sources import cleaner_of

READS_AGAIN = (
    "switch: a new checkpoint version reads the input again from where the current one began, builds the output anew, "
    "and takes over when it has caught up; or revert the change"
)
GOES_ON = (
    "switch: a new checkpoint version continues at the same offsets and reads no input again; or revert the change"
)
_NEW_DIRECTORY = (
    "writes to a new directory of the output, which read_serving reads together with the old one; a reader of single "
    "directories must read both"
)
GOES_ON_ELSEWHERE = (
    "switch: a new checkpoint version continues at the same offsets, reads no input again, and "
    f"{_NEW_DIRECTORY}; or revert the change"
)
WITHOUT_STATE = (
    "revert the change; or switch with accept_state_loss: a new checkpoint version continues at the same offsets with "
    "empty state: {lost}"
)
READS_AGAIN_ON_REQUEST = READS_AGAIN.replace("switch:", "switch with `--strategy rebuild`:")
WITHOUT_STATE_ON_REQUEST = WITHOUT_STATE.replace("switch with", "switch with `--strategy handoff` and")
"""The hint for a finding that a person may approve: the verdict does not lead to a switch unless a person
requests it.
"""
ONLY_BACK = (
    f"{NO_SWITCH}: a new checkpoint version would have to read the input again, and {{why}}. "
    f"{{otherwise}} the change, or {AS_NEW_QUERY}"
)
_OF_CHANGE, _OF_TRIGGER = "for this change", "with the availableNow trigger"
_IF_INTERVAL = "If the candidate has an interval trigger instead, "
_BY_HAND = (
    ". Changing the table by hand does not help: the deploy is refused all the same, and the deployed query fails at "
    "its next start, because it no longer fits the table"
)
"""The part of a hint about an output table that must keep the columns of the deployed query."""

_REVERT = "revert the change"
_REFUSED = "the deploy is refused because of {rule}: follow the hint of that finding first"
_FIRST = "the deploy is refused because of {rule}: follow the hint of that finding first. After that: "
_CAUSE = "the deploy is refused because of {rule}, and this change may be its cause: revert the change"
_KEPT = ". To keep the change, follow the hint of {rule} first. After that: {hint}"
_NOT_INTENDED = "If this change is not intended, revert it"
_REBUILDS = (
    "the deploy switches because of {rule}, {asks}; a person approves the rebuilt output before it takes over. "
    f"{_NOT_INTENDED}"
)
_GOES_ON_IN_NEW = f"the deploy switches because of {{rule}}, {{asks}}. {_NOT_INTENDED}"
_GIVES_UP_STATE = (
    "the deploy is refused because of {rule}, unless it has accept_state_loss: then it switches, {asks}. "
    f"{_NOT_INTENDED}"
)
"""What a deploy does about an opaque finding in addition to a breaking one: it rebuilds, it hands off, or it hands off
only without the state. ``{asks}``: one of the two constants below.
"""
_ASKS = "after a person has approved this finding"
_ASKS_NOBODY = "without an approval of this finding"
_NO_REBUILD = ". A switch that reads the input again, and loses nothing, is not possible, because {why}"
_WITH_INTERVAL = f". {_IF_INTERVAL}this switch is possible"
_RECOMPUTES = f"{IF_INTENDED}; to {RECOMPUTE}, deploy with `--strategy rebuild`"
_RECOMPUTED = f"{NO_ACTION}: the new checkpoint version computes all rows again"
_NOT_RECOMPUTED = f"{IF_INTENDED}: a deploy cannot {RECOMPUTE}, because {{why}}"
_RECOMPUTES_WITH_INTERVAL = f". {_IF_INTERVAL}`--strategy rebuild` does it"
_KEEPS_OLD_ROWS = f"{IF_INTENDED}: a deploy does not {RECOMPUTE}"
_INTERVAL = "1 second"
_OF_EVICTION = frozenset({"watermark-delay-increased", "watermark-removed"})
_STILL_EVICTED = ". The switch does not bring back evicted state either: late rows have the same effect after it"
_OF_COLUMNS = "output-column"
_OUTPUT_MOVED = frozenset({"sink-kind-changed", "sink-output-changed"})

_LOST = {
    "aggregate": "every group restarts without its earlier rows",
    "deduplicate": "rows already seen are written again if they come again",
    "join": "rows waiting for a match are lost",
    "limit": "the row count restarts at zero",
}
"""First part of an operator's kind -> the loss if its state is discarded and the candidate has such an operator."""
_CODE_ALONE = "the stateful code starts with nothing stored for any key"

_BEGINS = {
    "aggregate": "every group starts without earlier rows",
    "deduplicate": "rows that the query has read before are written if they come again",
    "join": "rows that the query has read before find no match",
    "limit": "the row count starts at zero",
}
"""First part of an operator's kind -> the consequence of empty state if only the candidate has such an operator."""
_CODE_BEGINS = "its new code starts without earlier rows"

_ENDS = {"deduplicate": "", "join": _LOST["join"], "limit": ""}
"""First part of an operator's kind -> the loss if only the deployed query has such an operator. Outside of the append
mode, an aggregation has written all of its results."""
_NOT_WRITTEN = "results that are not written yet are lost"
_GIVEN_UP = {
    "aggregate": "the groups are given up, and their last results stay in the output",
    "deduplicate": "the keys of rows already seen are given up, so that these rows are written again if they come "
    "again",
    "limit": "the row count is given up",
}
"""First part of an operator's kind -> what a switch gives up if the candidate has no stateful operator, and nothing is
lost otherwise."""


class Options(NamedTuple):
    """What a deploy can do about the breaking findings of a query. Each reason is empty if the action is possible."""

    findings: tuple[Finding, ...]
    old: Manifest
    new: Manifest

    @property
    def no_handoff(self) -> str:
        """Why a deploy that does not accept the loss of state cannot hand the query off."""
        return self._no_handoff(accept_state_loss=False)

    @property
    def no_rebuild(self) -> str:
        """Why a deploy cannot rebuild the query."""
        return self._no_rebuild(self.new)

    @property
    def rebuilds_with_interval(self) -> bool:
        """Whether an availableNow query could be rebuilt if its trigger were an interval trigger."""
        ends = parse_trigger(self.new.trigger).available_now
        return ends and not self._no_rebuild(msgspec.structs.replace(self.new, trigger=_INTERVAL))

    @property
    def why_no_rebuild(self) -> str:
        """Why a deploy cannot rebuild the query, without the remedy for an availableNow query."""
        return ENDS_TOO_EARLY if self.no_rebuild.startswith(ENDS_TOO_EARLY) else self.no_rebuild

    @property
    def switch(self) -> Switch:
        """Whether a deploy with the default strategy can switch."""
        if not (self.no_handoff and self.no_rebuild):
            return Switch.POSSIBLE
        return Switch.IMPOSSIBLE if self._no_handoff(accept_state_loss=True) else Switch.WITHOUT_STATE

    def _no_rebuild(self, new: Manifest) -> str:
        cleaners = set(filter(None, map(cleaner_of, (*self.old.sources, *new.sources))))
        return why_no_rebuild(self.findings, new, capabilities_of(new.sink.kind), cleaners)

    def _no_handoff(self, *, accept_state_loss: bool) -> str:
        sink = capabilities_of(self.new.sink.kind)
        return why_no_handoff(self.findings, self.old, self.new, sink, accept_state_loss=accept_state_loss)


def switch_of(findings: Iterable[Finding], old: Manifest, new: Manifest) -> Switch:
    """Return whether a deploy can switch the query, if its findings require a switch."""
    found = tuple(findings)
    return Options(found, old, new).switch if verdict_of(found) is Verdict.SWITCH else Switch.POSSIBLE


def priced(findings: Iterable[Finding], old: Manifest, new: Manifest) -> tuple[Finding, ...]:
    """Return the findings with completed hints. A hint that recommends a new checkpoint version also states what the
    switch costs this query.

    A deploy makes one transition, so all hints name the same one. If no switch is possible, the hint of the finding
    that prevents it says why, and the other hints refer to that finding. The finding ``refused-by-spark`` gets the hint
    of a finding about other sources. A hint that recommends an approval is replaced if a worse finding makes the
    approval useless. If a fatal finding refuses the deploy, the hint of a breaking one names the fatal finding first.
    """
    options = Options(tuple(findings), old, new)
    found = tuple(msgspec.structs.replace(each, hint=_hint(each, options)) for each in options.findings)
    return tuple(_after_fatal(_without_approval(each, options), found) for each in found)


def _after_fatal(finding: Finding, among: Sequence[Finding]) -> Finding:
    """Return the finding. If it is breaking and a fatal finding refuses the deploy, the hint names the fatal finding
    first.

    The change that the finding reports may be the cause of a failed rehearsal. In that case, reverting the change is
    the first remedy.
    """
    fatal = next((each for each in among if each.severity is Severity.FATAL), None)
    if fatal is None or finding.severity is not Severity.BREAKING or not finding.hint:
        return finding
    if fatal.rule not in FAILURES:
        return msgspec.structs.replace(finding, hint=f"{_FIRST.format(rule=fatal.rule)}{finding.hint}")
    way = finding.hint.removeprefix(f"{_REVERT}; or ").removesuffix(f"; or {_REVERT}")
    keeping = "" if way.startswith(_REVERT) else _KEPT.format(rule=fatal.rule, hint=way)
    return msgspec.structs.replace(finding, hint=f"{_CAUSE.format(rule=fatal.rule)}{keeping}")


def _without_approval(finding: Finding, options: Options) -> Finding:
    """Return the finding; with another hint if it recommends an approval that a worse finding makes impossible."""
    fatal = [each for each in options.findings if each.severity is Severity.FATAL or reads_other_sources(each)]
    breaking = _breaking(options)
    if APPROVE not in finding.hint or not (fatal or breaking):
        return finding
    does = _REFUSED.format(rule=fatal[0].rule) if fatal else _beside(finding, breaking, options)
    return msgspec.structs.replace(finding, hint=does)


def _beside(finding: Finding, breaking: Sequence[Finding], options: Options) -> str:
    """Return what the deploy does because of the breaking findings, which decide for all findings of the query.

    A handoff requires an approval only of a finding about what the handoff keeps.
    """
    stateful = is_stateful(options.old, options.new)
    asks = _ASKS if is_carried_over(finding, keeps_state=stateful) else _ASKS_NOBODY
    if options.switch is Switch.IMPOSSIBLE:
        return _REFUSED.format(rule=_blocking(options)[0].rule)
    if options.switch is Switch.WITHOUT_STATE:
        return _GIVES_UP_STATE.format(rule=breaking[0].rule, asks=asks)
    if options.no_handoff:
        return _REBUILDS.format(rule=breaking[0].rule, asks=_ASKS_NOBODY)
    return _GOES_ON_IN_NEW.format(rule=breaking[0].rule, asks=asks)


def _hint(finding: Finding, options: Options) -> str:
    """Return the hint with what the deploy would do, and its cost."""
    if finding.hint == RECOMPUTE:
        return _of_old_rows(options)
    if NEW_CHECKPOINT not in finding.hint:
        return finding.hint
    if not _breaking(options):
        return finding.hint.replace(NEW_CHECKPOINT, _on_request(finding, options))
    other = next((each for each in options.findings if reads_other_sources(each)), None)
    if other is not None:
        return other.hint if finding.rule == "refused-by-spark" else _REFUSED.format(rule=other.rule)
    if options.switch is Switch.IMPOSSIBLE:
        blocking = _blocking(options)
        if finding.rule not in {each.rule for each in blocking}:
            return _REFUSED.format(rule=blocking[0].rule)
        return finding.hint.replace(NEW_CHECKPOINT, _only_back(finding, options))
    return finding.hint.replace(NEW_CHECKPOINT, _cost(finding, options))


def _only_back(finding: Finding, options: Options) -> str:
    """Return why the deploy cannot switch, and what is possible instead."""
    possible = f"{_IF_INTERVAL}the deploy can switch. Otherwise revert" if options.rebuilds_with_interval else "Revert"
    hint = ONLY_BACK.format(why=options.why_no_rebuild, otherwise=possible)
    hint = hint.replace(_OF_CHANGE, _OF_TRIGGER, 1) if options.rebuilds_with_interval else hint
    columns = any(each.rule.startswith(_OF_COLUMNS) for each in _breaking(options))
    of_table = columns and capabilities_of(options.new.sink.kind).one_place
    return f"{hint}{_BY_HAND}" if of_table and finding.rule.startswith((_OF_COLUMNS, OUTPUT_DOES_NOT_FIT)) else hint


def _cost(finding: Finding, options: Options) -> str:
    """Return the transition of a deploy that can switch, with its cost."""
    if options.switch is Switch.WITHOUT_STATE:
        sink = capabilities_of(options.new.sink.kind)
        hint = WITHOUT_STATE.format(lost=_lost(options.old, options.new))
        if concern_of(finding) is Concern.OUTPUT and sink.shadows and not sink.one_place:
            hint += f". The new version {_NEW_DIRECTORY}"
        no_rebuild = _NO_REBUILD.format(why=options.why_no_rebuild) if sink.shadows else ""
        no_rebuild += _WITH_INTERVAL if options.rebuilds_with_interval else ""
        return f"{hint}{_STILL_EVICTED if finding.rule in _OF_EVICTION else ''}{no_rebuild}"
    if options.no_handoff:
        return READS_AGAIN
    sink = capabilities_of(options.new.sink.kind)
    of_output = any(concern_of(each) is Concern.OUTPUT for each in _breaking(options))
    return GOES_ON_ELSEWHERE if of_output and sink.shadows and not sink.one_place else GOES_ON


def _on_request(finding: Finding, options: Options) -> str:
    """Return the transition that a person can request instead of approving an opaque finding."""
    if not options.no_rebuild:
        return READS_AGAIN_ON_REQUEST
    if concern_of(finding) is Concern.OUTPUT or not is_stateful(options.old, options.new):
        return _REVERT
    return WITHOUT_STATE_ON_REQUEST.format(lost=_lost(options.old, options.new))


def _of_old_rows(options: Options) -> str:
    """Return whether and how a deploy can give new values to rows that are already written."""
    if not _breaking(options):
        if not options.no_rebuild:
            return _RECOMPUTES
        with_interval = _RECOMPUTES_WITH_INTERVAL if options.rebuilds_with_interval else ""
        return f"{_NOT_RECOMPUTED.format(why=options.why_no_rebuild)}{with_interval}"
    rebuilds = options.switch is Switch.POSSIBLE and options.no_handoff
    return _RECOMPUTED if rebuilds else _KEEPS_OLD_ROWS


def _breaking(options: Options) -> list[Finding]:
    return [each for each in options.findings if each.severity is Severity.BREAKING]


def _blocking(options: Options) -> list[Finding]:
    """Return the breaking findings because of which no handoff is possible, even without the state."""
    breaking, sink = _breaking(options), capabilities_of(options.new.sink.kind)
    if not (options.old.sink.same_place(options.new.sink) or sink.delivers):
        return [each for each in breaking if each.rule in _OUTPUT_MOVED] or breaking
    stateful = is_stateful(options.old, options.new)
    return [each for each in breaking if is_about_offsets(each, stateful=stateful) or needs_new_rows(each, sink)]


def _lost(old: Manifest, new: Manifest) -> str:
    """Return the losses of a switch with empty state: first those of the candidate's operators, then those of operators
    that only the old query has.
    """
    before, after = ([each.kind.partition("-")[0] for each in side.operators] for side in (old, new))
    lost = [_LOST.get(kind, _CODE_ALONE) if kind in before else _BEGINS.get(kind, _CODE_BEGINS) for kind in after]
    ends = _ENDS if old.output_mode == "append" else {**_ENDS, "aggregate": ""}
    lost += [ends.get(kind, _NOT_WRITTEN) for kind in before if kind not in after]
    lost = list(filter(None, lost)) or [_GIVEN_UP[kind] for kind in before]
    return ", ".join(dict.fromkeys(lost))
