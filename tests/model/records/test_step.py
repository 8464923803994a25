"""Tests the recorded tags and the displayed names of steps."""

from __future__ import annotations

from streamkeeper.model.records.step import Step, label_of

RECORDED = (
    *("bundle", "standby", "assess", "backup", "approve", "ready", "shadow", "catch-up", "compare", "review"),
    *("drain", "prove-dead", "reach", "restore", "go", "first-commit", "boundary", "probation", "stable", "fall-back"),
)
"""The tags that journals have contained since the first version."""


def test_the_tags_of_steps_never_change() -> None:
    """The recorded tags of the steps never change, so that older and newer versions can read each other's journals."""
    assert tuple(step.tag for step in Step) == RECORDED


def test_a_recorded_tag_is_shown_with_its_current_label() -> None:
    """A recorded tag is shown with the step's current label; an unknown tag of a newer version is shown unchanged."""
    assert [label_of(tag) for tag in RECORDED] == [step.label for step in Step]
    assert label_of("stable") == "promote"
    assert label_of("a-step-to-come") == "a-step-to-come"
