"""What a finding is about: what the choice of a way asks of it, whichever rule has found it."""

from __future__ import annotations

from enum import Enum

from streamkeeper.model.finding import Finding


class Concern(Enum):
    """What a change or a damage touches."""

    OTHER_SOURCES = "other-sources"
    """Which sources a query reads: what was read of the old ones says nothing of the new ones."""
    OFFSETS = "offsets"
    """What the offsets of a source mean."""
    HISTORY = "history"
    """What a source still holds of what was read."""
    OUTPUT = "output"
    """Whether an output takes the rows."""
    CHECKPOINT = "checkpoint"
    """The files of the checkpoint version that serves, or what its open batch has to read again."""
    RECORD = "record"
    """Where that checkpoint version lies, and whose it is."""
    SINK_AHEAD = "sink-ahead"
    """That the output holds batches which that checkpoint version has not."""
    OUTPUT_LOST = "output-lost"
    """That the output lacks batches which that checkpoint version has committed."""
    REHEARSAL = "rehearsal"
    """How a run of the candidate on a copy of that checkpoint version went."""
    OWNER = "owner"
    """Which query fills an output."""
    UNEXPLAINED = "unexplained"
    """No one knows: state, offsets or the output."""
    QUERY = "query"
    """What is computed, and the state that comes of it."""


OF_SOURCES = frozenset({Concern.OFFSETS, Concern.OTHER_SOURCES})
"""Offsets cannot be carried on past these."""

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
    "query-may-be-renamed": Concern.OWNER,
    "refused-by-spark": Concern.UNEXPLAINED,
    "sink-ahead-of-checkpoint": Concern.SINK_AHEAD,
    "sink-server-not-on-record": Concern.OUTPUT,
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
_OF_FAMILY = {"checkpoint-": Concern.CHECKPOINT, "output-column": Concern.OUTPUT}
_OF_PLACE = {"rehearsal": Concern.REHEARSAL, "source": Concern.OFFSETS}


def concern_of(finding: Finding) -> Concern:
    """By its rule, else by the family of its rule, else by where it was found.

    Not a field: findings are recorded, and those of an older release have to mean what they meant.
    """
    place = next((concern for place, concern in _OF_PLACE.items() if finding.where.startswith(place)), None)
    if finding.rule == "unexplained-difference":
        return place or Concern.UNEXPLAINED
    family = next((concern for family, concern in _OF_FAMILY.items() if finding.rule.startswith(family)), None)
    return _OF_RULE.get(finding.rule) or family or place or Concern.QUERY
