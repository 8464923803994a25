"""The declaration of a kind of runner: the facts that other packages need about it without loading its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from streamkeeper.model.protocol.driver_messages import FORMAT


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cluster runs an instance. The record is written before the cluster is asked to start the instance.

    A subclass adds the fields with which the cluster identifies the instance.
    """

    FILE: ClassVar[str]
    """The name of the record in ``control/<job>/<instance>/``."""
    format: int = FORMAT
    instance: str
    """The instance's name."""
    cluster: str
    """The cluster's address."""
    installation: str = ""
    """Id of the installation that starts the instance; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerVariable:
    """An environment variable that one kind of runner reads."""

    name: str
    """The whole name of the variable."""
    default: str
    """The value that applies if the variable is unset or empty, in words."""
    description: str
    """What the variable sets, in Markdown; without the kind of runner."""
    read: Callable[[str, str], str]
    """Returns the value from the variable's name and text, without spaces around it; raises InvalidInput."""
    required: str = ""
    """The remedy if the variable is not set; empty if it may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerKind:
    """The facts about a kind of runner that need no request to its cluster."""

    name: str
    """The kind's name in ``STREAMKEEPER_DRIVERS`` and in a launch."""
    title: str
    """The kind's name in a sentence."""
    runner: str
    """The ``Runner``, as ``module:class``. It is loaded when it is first needed."""
    on_nodes: bool = True
    """Whether the cluster chooses the machine of each driver. Then every node must be able to reach the store, the
    checkpoints and the outputs.
    """
    place: type[Place] | None = None
    """The record of an instance's place in the cluster; None if the cluster chooses no name of its own."""
    variables: tuple[RunnerVariable, ...] = ()
    """The variables that only this kind reads."""
    container: str = ""
    """The ``Container`` of its supervisors, as ``module:class``; empty if they run as on any machine."""
    container_mark: str = ""
    """The environment variable that is set in this container only."""
