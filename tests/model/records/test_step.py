"""What a step is called."""

from __future__ import annotations

from streamkeeper.model.records.step import Step, label_of

RECORDED = (
    *("bundle", "standby", "assess", "backup", "approve", "ready", "shadow", "catch-up", "compare", "review"),
    *("drain", "prove-dead", "reach", "restore", "go", "first-commit", "boundary", "probation", "stable", "fall-back"),
)
"""As journals have had them from the first."""


def test_the_tags_of_steps_never_change() -> None:
    """A step is renamed for people; what is on record stays what older and newer versions read."""
    assert tuple(step.tag for step in Step) == RECORDED


def test_a_recorded_step_is_told_by_its_name_of_now() -> None:
    """Whoever reads a history finds the names of plans and tasks; a newer version's step is told as it is."""
    assert [label_of(tag) for tag in RECORDED] == [step.label for step in Step]
    assert label_of("stable") == "promote"
    assert label_of("a-step-to-come") == "a-step-to-come"
