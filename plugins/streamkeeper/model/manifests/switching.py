"""Determines why a query cannot move to a new checkpoint version, from its findings and its manifests. Pure.

A handoff keeps the offsets and the output. A rebuild rereads the input and needs an output that can be written next to
the current one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from streamkeeper.model.manifests.concern import OF_SOURCES, Concern, concern_of, reads_other_sources
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest, is_stateful
from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.model.manifests.trigger import parse_trigger

ENDS_TOO_EARLY = "an availableNow query ends before it could take over"
STATE_LOST = "its state would be lost (use accept_state_loss to accept that)"


def why_no_handoff(
    findings: Iterable[Finding], old: Manifest, new: Manifest, sink: SinkCapabilities, *, accept_state_loss: bool
) -> str:
    """Return why the offsets or the output cannot be kept; empty if they can. ``sink``: capabilities of the
    new sink.
    """
    stateful = is_stateful(old, new)
    if stateful and not accept_state_loss:
        return STATE_LOST
    if not (old.sink.same_place(new.sink) or sink.delivers):
        return f"the rows in {old.sink.output} would be missing in {new.sink.output}"
    breaking = [finding for finding in findings if finding.severity is Severity.BREAKING]
    if any(needs_new_rows(finding, sink) for finding in breaking):
        return "the existing output does not accept its rows"
    others = sorted({finding.rule for finding in breaking if is_about_offsets(finding, stateful=stateful)})
    return f"its offsets would mean something else ({', '.join(others)})" if others else ""


def why_no_rebuild(
    findings: Sequence[Finding], new: Manifest, sink: SinkCapabilities, cleaners: Collection[str]
) -> str:
    """Return why the query cannot be rebuilt next to the current driver; empty if nothing prevents it.

    ``sink``: capabilities of the new sink; ``cleaners``: values of ``cleanSource`` of the old and the new sources.
    """
    if not sink.shadows:
        return f"its {new.sink.kind} output cannot be written without readers seeing it before it is complete"
    if parse_trigger(new.trigger).available_now:
        return f"{ENDS_TOO_EARLY} (deploy it with an interval trigger)"
    if cleaners:
        return (
            f"two drivers would read the same files, and cleanSource={min(cleaners)} removes files that one of them has"
            " read (first deploy with cleanSource=off)"
        )
    other = sorted({finding.rule for finding in findings if reads_other_sources(finding)})
    if other:
        return f"the end of the rebuild cannot be determined ({', '.join(other)})"
    return "; ".join(finding.evidence for finding in findings if concern_of(finding) is Concern.HISTORY)


def needs_new_rows(finding: Finding, sink: SinkCapabilities) -> bool:
    """Whether a breaking finding shows that the output does not accept the new rows, although all versions
    write to it.
    """
    return sink.one_place and concern_of(finding) is Concern.OUTPUT


def is_about_offsets(finding: Finding, *, stateful: bool) -> bool:
    """Whether a finding may concern the meaning of a source's offsets.

    An unexplained objection of Spark counts, unless the query keeps state, which a handoff gives up: the objection may
    be about the state.
    """
    concern = concern_of(finding)
    return concern in OF_SOURCES or (concern is Concern.UNEXPLAINED and not stateful)
