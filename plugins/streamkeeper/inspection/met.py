"""A record of what a walk over code has found that may reach further than the values themselves."""

from __future__ import annotations

from typing import Any

from streamkeeper.inspection.inert import NAMES, SEES_LOCALS, TYPES, Reach, reach_of_attribute


class Met:
    """The record of one walk over code: flags for what the code can read or reach, and the objects that some of the
    flags concern.
    """

    def __init__(self) -> None:
        self.reach = Reach.NOTHING
        """How far the code reaches into the bundle."""
        self.foreign = False
        """Whether the walk met a library that may read what is passed to it."""
        self.unreadable = False
        """Whether the walk met something that no digest can cover."""
        self.names = False
        """Whether code sees the names of things."""
        self.attributes = False
        """Whether code sees all attributes of an object."""
        self.types = False
        """Whether code sees the annotations of a class."""
        self.locals = False
        """Whether code sees its local variables."""
        self.called: list[Any] = []
        """What code would see with ``names``."""
        self.copied: list[Any] = []
        """What code would see with ``attributes``."""
        self.annotated: list[dict[str, Any]] = []
        """What code would see with ``types``."""

    def meet(self, reach: Reach) -> None:
        """Record how far the code can reach into the bundle."""
        self.unreadable |= reach is Reach.ENVIRONMENT
        self.reach = max(self.reach, reach)

    def meet_library(self, reach: Reach) -> None:
        """Record that the code uses a library, and how far the library can reach into the bundle."""
        self.foreign |= reach >= Reach.DATA
        self.meet(reach)

    def name(self, name: object) -> None:
        """Record a string in the code, or the name of an attribute that the code reads."""
        self.meet(reach_of_attribute(str(name)))
        self.names |= name in NAMES
        self.attributes |= name == "__dict__"
        self.types |= name in TYPES
        self.locals |= name in SEES_LOCALS

    def merge(self, inner: Met) -> None:
        """Add the record of a separate walk over one element of a set."""
        for flag in ("foreign", "unreadable", "names", "attributes", "types", "locals"):
            setattr(self, flag, getattr(self, flag) or getattr(inner, flag))
        self.reach = max(self.reach, inner.reach)
        self.called += sorted(inner.called, key=str)
        self.copied += sorted(inner.copied, key=str)
        self.annotated += inner.annotated
