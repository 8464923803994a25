"""The steps of a deploy, and their names for people and in records."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property


class Step(IntEnum):
    """The steps of a deploy in their order. FALL_BACK replaces the remaining steps of a deploy that cannot continue."""

    BUNDLE = 1
    STANDBY = 2
    ASSESS = 3
    KEEP_STATE = 4
    APPROVE = 5
    READY = 6
    SHADOW = 7
    CATCH_UP = 8
    COMPARE = 9
    REVIEW = 10
    DRAIN = 11
    PROVE_DEAD = 12
    CATCH_UP_AFTER_DRAIN = 13
    RESTORE = 14
    GO = 15
    FIRST_COMMIT = 16
    SNAPSHOT = 17
    PROBATION = 18
    PROMOTE = 19
    FALL_BACK = 20

    @cached_property
    def label(self) -> str:
        """The step's name in plans, reports and docs, such as ``first-commit``; its task is named ``first_commit``."""
        return self.name.lower().replace("_", "-")

    @cached_property
    def tag(self) -> str:
        """The step's name in records, which never changes."""
        return _TAGS.get(self, self.label)


_TAGS = {
    Step.KEEP_STATE: "backup",
    Step.CATCH_UP_AFTER_DRAIN: "reach",
    Step.SNAPSHOT: "boundary",
    Step.PROMOTE: "stable",
}
"""The tags of steps that had another name when they were first recorded."""


BEFORE_DRAIN = frozenset(step.tag for step in Step if step < Step.DRAIN)
"""The tags of the steps during which the current driver keeps running."""


def label_of(tag: str) -> str:
    """Return the label of a recorded step's tag; a tag that only a newer Streamkeeper has is returned unchanged."""
    return next((step.label for step in Step if step.tag == tag), tag)
