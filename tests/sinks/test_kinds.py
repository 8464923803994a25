"""Tests that the declaration of each kind of sink matches the code of that kind."""

from __future__ import annotations

from importlib import import_module

import pytest

import streamkeeper
from streamkeeper.model.manifests.sink_capabilities import Reconciliation
from streamkeeper.sinks.contract import Sink
from streamkeeper.sinks.kinds.known_kinds import KINDS
from streamkeeper.sinks.kinds.sink_kind import SinkKind

EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)


@EACH
def test_the_sink_of_each_kind_can_be_imported_under_its_declared_name(kind: SinkKind) -> None:
    """Each kind's sink can be imported from ``streamkeeper`` under the declared name and belongs to the declared kind
    and module.
    """
    sink = getattr(streamkeeper, kind.sink)
    assert issubclass(sink, Sink)
    assert (sink.kind, sink.__module__) == (kind.name, kind.module)


@EACH
def test_the_module_of_each_kind_has_exactly_the_functions_of_its_capabilities(kind: SinkKind) -> None:
    """The module of each kind has exactly the functions that its capabilities require; a missing one would fail in the
    middle of a recovery.
    """
    can = kind.capabilities
    due = {
        "answer": can.knows_batches,
        "refuse_cut": can.reconciles is Reconciliation.CUT_BACK,
        "read_fences": can.fences,
    }
    module = import_module(kind.module)
    assert {name: hasattr(module, name) for name in due} == due


@EACH
def test_only_a_kind_with_fences_declares_schemes_and_a_description_of_places(kind: SinkKind) -> None:
    """A kind with fences, and only such a kind, declares the schemes and the description of the places where a person
    who lost the store can name its outputs.
    """
    assert (bool(kind.schemes), bool(kind.place)) == (kind.capabilities.fences,) * 2


@EACH
def test_the_declared_executor_module_of_each_kind_can_be_imported(kind: SinkKind) -> None:
    """The declared module of each kind's executor tasks can be imported, as a driver does on its first executor before
    a query starts.
    """
    assert not kind.task_module or import_module(kind.task_module)
