"""What one walk over code met on its way that may reach further than the values themselves."""

from __future__ import annotations

from typing import Any

from streamkeeper.inspection.inert import NAMES, SEES_LOCALS, TYPES, Reach, reach_of_attribute


class Met:
    """``reach``: how far into the bundle; ``foreign``: whether a library that may read what it is given was there.

    ``names``, ``attributes``, ``types``, ``locals``: whether code sees how things are called, all attributes of an
    object, the annotations of a class, its local variables. What it would see then: ``called``, ``copied``,
    ``annotated``.
    """

    def __init__(self) -> None:
        self.reach = Reach.NOTHING
        self.foreign = False
        self.unreadable = False
        self.names = False
        self.attributes = False
        self.types = False
        self.locals = False
        self.called: list[Any] = []
        self.copied: list[Any] = []
        self.annotated: list[dict[str, Any]] = []

    def meet(self, reach: Reach) -> None:
        """Something that reaches so far."""
        self.unreadable |= reach is Reach.ENVIRONMENT
        self.reach = max(self.reach, reach)

    def meet_library(self, reach: Reach) -> None:
        """Code of a library's that reaches so far."""
        self.foreign |= reach >= Reach.DATA
        self.meet(reach)

    def name(self, name: object) -> None:
        """A text in code, or an attribute that it reads."""
        self.meet(reach_of_attribute(str(name)))
        self.names |= name in NAMES
        self.attributes |= name == "__dict__"
        self.types |= name in TYPES
        self.locals |= name in SEES_LOCALS

    def merge(self, inner: Met) -> None:
        """What a walk met that read an element of a set on its own."""
        for flag in ("foreign", "unreadable", "names", "attributes", "types", "locals"):
            setattr(self, flag, getattr(self, flag) or getattr(inner, flag))
        self.reach = max(self.reach, inner.reach)
        self.called += sorted(inner.called, key=str)
        self.copied += sorted(inner.copied, key=str)
        self.annotated += inner.annotated
