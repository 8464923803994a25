"""The subject of a finding, independent of its rule. A query's transition is chosen from the subjects of
its findings.
"""

from __future__ import annotations

from enum import Enum

from streamkeeper.model.manifests.evidence import Look
from streamkeeper.model.manifests.finding import Finding, Severity


class Concern(Enum):
    """The part that a change or damage affects, which is the subject of a finding."""

    OTHER_SOURCES = "other-sources"
    """The set of sources: the progress in the old sources does not apply to the new ones."""
    OFFSETS = "offsets"
    """The meaning of a source's offsets."""
    HISTORY = "history"
    """Whether a source still has the input that was read."""
    OUTPUT = "output"
    """Whether an output accepts the rows."""
    CHECKPOINT = "checkpoint"
    """The files of the current checkpoint version, or the input that a replay of its open batch needs."""
    RECORD = "record"
    """The place and the owner of the current checkpoint version."""
    SINK_AHEAD = "sink-ahead"
    """Batches in the output that the current checkpoint version lacks."""
    OUTPUT_LOST = "output-lost"
    """Batches that the current checkpoint version has committed and the output lacks."""
    REHEARSAL = "rehearsal"
    """The result of running the candidate on a copy of the current checkpoint version."""
    OWNER = "owner"
    """The query that fills an output."""
    UNEXPLAINED = "unexplained"
    """Unknown: a difference may affect state, offsets or the output."""
    QUERY = "query"
    """The computation, and its resulting state."""


OF_SOURCES = frozenset({Concern.OFFSETS, Concern.OTHER_SOURCES})
"""After a change of one of these concerns, offsets cannot be carried over to a new checkpoint version."""

_OF_RULE = {
    "checkpoint-elsewhere": Concern.RECORD,
    "checkpoint-layout-changed": Concern.QUERY,
    "checkpoint-lost": Concern.RECORD,
    "checkpoint-of-another-installation": Concern.RECORD,
    "history-gone": Concern.HISTORY,
    "input-names-unreadable": Concern.CHECKPOINT,
    "input-of-open-batch-gone": Concern.CHECKPOINT,
    "open-batch-of-named-sources": Concern.CHECKPOINT,
    "output-changes-hands": Concern.UNEXPLAINED,
    "output-does-not-fit": Concern.OUTPUT,
    "output-of-another-query": Concern.OUTPUT,
    "output-lost": Concern.OUTPUT_LOST,
    "output-of-another-installation": Concern.OUTPUT,
    "output-name-taken": Concern.OUTPUT,
    "output-placing-column-changed": Concern.OUTPUT,
    "query-may-be-renamed": Concern.OWNER,
    "refused-by-spark": Concern.UNEXPLAINED,
    "sink-ahead-of-checkpoint": Concern.SINK_AHEAD,
    "sink-server-not-on-record": Concern.OUTPUT,
    "sink-column-redefined": Concern.OUTPUT,
    "sink-function-may-write-elsewhere": Concern.OUTPUT,
    "sink-function-unreadable": Concern.OUTPUT,
    "sink-key-redefined": Concern.OUTPUT,
    "sink-option-changed": Concern.OUTPUT,
    "sink-partition-redefined": Concern.OUTPUT,
    "source-count-changed": Concern.OTHER_SOURCES,
    "source-kind-changed": Concern.OTHER_SOURCES,
    "source-location-changed": Concern.OTHER_SOURCES,
    "source-naming-changed": Concern.OTHER_SOURCES,
    "source-order-changed": Concern.OTHER_SOURCES,
    "source-renamed": Concern.OTHER_SOURCES,
    "source-selection-changed": Concern.OTHER_SOURCES,
}
_OF_APPROVAL = {"sink-kind-changed": Concern.OUTPUT, "sink-output-changed": Concern.OUTPUT}
"""Concerns of findings that a person can approve. If such a rule is breaking, the whole query needs another output."""
_OF_FAMILY = {"checkpoint-": Concern.CHECKPOINT, "output-column": Concern.OUTPUT}
_OF_PLACE = {"rehearsal": Concern.REHEARSAL, "source": Concern.OFFSETS}


def concern_of(finding: Finding) -> Concern:
    """Return the concern of a finding. The first of these that has a concern decides: the rule, its family, the place.

    If none of them has a concern, the result is QUERY, or UNEXPLAINED for the rule ``unexplained-difference``. The
    concern is derived and not stored, because recorded findings of older versions have no such field.
    """
    place = next((concern for place, concern in _OF_PLACE.items() if finding.where.startswith(place)), None)
    if finding.rule == "unexplained-difference":
        return place or Concern.UNEXPLAINED
    family = next((concern for family, concern in _OF_FAMILY.items() if finding.rule.startswith(family)), None)
    approved = _OF_APPROVAL.get(finding.rule) if finding.severity is Severity.OPAQUE else None
    return approved or _OF_RULE.get(finding.rule) or family or place or Concern.QUERY


def reads_other_sources(finding: Finding) -> bool:
    """Whether a finding shows that the candidate reads other sources, to which the old sources' offsets do not apply.

    Such a finding rules out every switch to a new checkpoint version.
    """
    return finding.severity is Severity.BREAKING and concern_of(finding) is Concern.OTHER_SOURCES


def is_carried_over(finding: Finding, *, keeps_state: bool) -> bool:
    """Whether an opaque finding is about something that a handoff keeps.

    A handoff keeps the last batch and the offsets, the output, and the computation of a query without state.
    ``keeps_state``: whether the query has state, which a handoff gives up.
    """
    concern = concern_of(finding)
    if finding.severity is not Severity.OPAQUE or concern is Concern.REHEARSAL:
        return False
    return concern is not Concern.QUERY or not keeps_state or finding.where == Look.SINK.value
