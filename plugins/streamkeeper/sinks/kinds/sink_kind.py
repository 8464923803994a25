"""The declaration of a kind of sink: what other packages know of it without its code."""

from __future__ import annotations

import msgspec

from streamkeeper.model.sink_capabilities import SinkCapabilities


class SinkKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of sink, as far as it is known without a database client or Spark."""

    name: str
    """The kind's name in a manifest."""
    sink: str
    """The name under which jobs import the sink."""
    module: str
    """The module that contains the sink, and the functions that ``kind_modules`` lists."""
    capabilities: SinkCapabilities
    """What outputs of this kind can do."""
    schemes: frozenset[str] = frozenset()
    """URL schemes of the places whose fences the kind can read; ``""`` is the scheme of a path. A scheme with a
    client, such as ``postgresql+psycopg``, counts as the scheme before the plus sign.
    """
    place: str = ""
    """What a person names as such a place, as a phrase; empty without one."""
    task_module: str = ""
    """The module of Streamkeeper that Spark's tasks run on executors; empty if they run none."""
