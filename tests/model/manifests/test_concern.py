"""Tests what each finding is about, as the choice of a transition uses it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from streamkeeper.compatibility.effects import BREAKING, FATAL, OPAQUE
from streamkeeper.compatibility.effects_of_notes import NOTES
from streamkeeper.model.manifests import concern
from streamkeeper.model.manifests.concern import Concern, concern_of
from streamkeeper.model.manifests.finding import Finding, Severity

_COME_WITH_THEIR_EFFECT = {"input-of-open-batch-gone", "open-batch-of-named-sources", "sink-ahead-of-checkpoint"}


def test_every_rule_in_the_concern_table_exists() -> None:
    """Every rule in the concern table exists; a renamed rule would otherwise silently concern only the query."""
    assert {*concern._OF_RULE, *concern._OF_APPROVAL} <= {*BREAKING, *FATAL, *OPAQUE, *NOTES} | _COME_WITH_THEIR_EFFECT


@pytest.mark.parametrize(
    ("rule", "where", "expected"),
    [
        ("source-kind-changed", "source 0 (file /in)", Concern.OTHER_SOURCES),
        ("source-column-type-changed", "source 0 (file /in)", Concern.OFFSETS),
        ("unexplained-difference", "sources", Concern.OFFSETS),
        ("unexplained-difference", "delays", Concern.UNEXPLAINED),
        ("refused-by-spark", "rehearsal of batch 7", Concern.UNEXPLAINED),
        ("fails-on-the-last-batch", "rehearsal of batch 7", Concern.REHEARSAL),
        ("history-gone", "source 0 (file /in)", Concern.HISTORY),
        ("checkpoint-lost", "checkpoint v0003", Concern.RECORD),
        ("checkpoint-torn-offsets", "offsets/7", Concern.CHECKPOINT),
        ("checkpoint-layout-changed", "spark.sql.streaming.checkpointFileFormat", Concern.QUERY),
        ("input-of-open-batch-gone", "sources", Concern.CHECKPOINT),
        ("sink-ahead-of-checkpoint", "sink /out", Concern.SINK_AHEAD),
        ("output-column-added", "output columns", Concern.OUTPUT),
        ("output-mode-changed", "output mode", Concern.QUERY),
        ("grouping-keys-changed", "aggregation", Concern.QUERY),
    ],
)
def test_a_findings_concern_follows_from_its_rule_family_or_location(rule: str, where: str, expected: Concern) -> None:
    """A finding's concern follows from its rule, else from the family of its rule, else from where it was found."""
    found = Finding(rule=rule, severity=Severity.BREAKING, where=where, evidence="a -> b")
    assert concern_of(found) is expected


@pytest.mark.parametrize("rule", ["sink-kind-changed", "sink-output-changed"])
def test_the_approval_of_another_output_concerns_the_output(rule: str) -> None:
    """An approval of another output, such as another topic, concerns the output; if the change is breaking, it concerns
    the whole query.
    """
    found = Finding(rule=rule, severity=Severity.OPAQUE, where="sink", evidence="a -> b")
    assert concern_of(found) is Concern.OUTPUT
    assert concern_of(replace(found, severity=Severity.BREAKING)) is Concern.QUERY
