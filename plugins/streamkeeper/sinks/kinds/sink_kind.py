"""The declaration of a kind of sink: the facts that other packages can use without the kind's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.model.protocol.fault_kinds import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """An error that was raised in Python, perhaps by the client of a sink."""

    names: tuple[str, ...]
    """The names of its class and base classes, without modules and without classes of the job's own code."""
    message: str
    """Its message."""
    error: BaseException | None
    """The live error; None for the error of a Python worker, of which only the text is available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkKind:
    """The facts about a kind of sink that need neither a database client nor Spark."""

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
    """What a person names as such a place, as a phrase; empty if the kind has no such place."""
    connectors: str = ""
    """The folder of the jars that the sink needs, below the folder of all connectors; empty if it needs none."""
    task_module: str = ""
    """The module of Streamkeeper that Spark's tasks run on executors; empty if they run none."""
    task_class: str = ""
    """The class of the package ``jvm`` that the plan of a batch calls in Spark's tasks; empty if it calls none."""
    format_columns: tuple[str, ...] = ()
    """The columns that Spark's own writer of the format ``name`` reads by name, other than the content; empty if it
    reads none.
    """
    judge: Callable[[ClientError], Judged | None] | None = None
    """Judges an error of the kind's client, and returns None for any other error; None for a kind without a client."""
    cause_attribute: str = ""
    """The attribute in which errors of the client keep the error that caused them; empty if only Python's own
    attributes do.
    """
