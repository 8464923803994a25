"""Tests that everything a version has stored is readable by every later version; the schema of a released version is
never edited.
"""

from __future__ import annotations

import copy
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import streamkeeper
from streamkeeper.checkpoints.operator_metadata import OperatorFacts
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.runner_kinds.runner_kind import Place
from tests.model.stored_types import STORED, Schema, schema_of_now, unread

VERSIONS = sorted((Path(__file__).parent / "yesterday").glob("schema-*.json"))
EXEMPT: set[type] = {JobState, OperatorFacts, Place}
"""Not compared: a folded copy is computed anew for a new format, ``OperatorFacts`` is from a file of Spark's, and a
place is stored as its own kind's type.
"""


@pytest.mark.parametrize("file", VERSIONS, ids=lambda file: file.stem)
def test_the_current_schema_reads_everything_a_released_version_stored(file: Path) -> None:
    """The current schema reads every kind, field, place and value of a released version, and requires no new field."""
    assert unread(json.loads(file.read_text()), schema_of_now()) == []


def drop_kind(schema: Schema) -> None:
    schema["defs"]["InstanceEnded"]["properties"]["type"]["enum"] = ["instance-gone"]


def drop_value(schema: Schema) -> None:
    schema["defs"]["DriverState"]["enum"].remove("fenced")


def drop_field(schema: Schema) -> None:
    del schema["defs"]["LaunchSpec"]["properties"]["bundle"]


def change_type(schema: Schema) -> None:
    schema["defs"]["LaunchSpec"]["properties"]["params"]["additionalProperties"] = {"type": "string"}


def require_more(schema: Schema) -> None:
    schema["defs"]["DriverExit"]["properties"]["host"] = {"type": "string"}
    schema["defs"]["DriverExit"]["required"].append("host")


def drop_place(schema: Schema) -> None:
    del schema["defs"]["Chunk"]["prefixItems"][-1]


def drop_thing(schema: Schema) -> None:
    del schema["roots"]["pin"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drop_kind, "entry.record: instance-ended is not read any more"),
        (drop_value, "fenced is no value any more"),
        (drop_field, "launch.bundle is not read any more"),
        (change_type, "launch.params[]: integer is not read any more"),
        (require_more, "exit.host is required"),
        (drop_place, "has 4 places, had 5"),
        (drop_thing, "pin is not read any more"),
    ],
)
def test_each_way_a_schema_loses_stored_data_is_reported(change: Callable[[Schema], None], told: str) -> None:
    """Negative controls: each way in which a schema can lose stored data is reported with its location."""
    old, new = schema_of_now(), copy.deepcopy(schema_of_now())
    change(new)
    assert any(told in each for each in unread(old, new)), unread(old, new)


def test_added_fields_and_kinds_are_not_a_loss() -> None:
    """Added fields with a default, enum values and record kinds are not reported as a loss."""
    old, new = schema_of_now(), copy.deepcopy(schema_of_now())
    new["defs"]["DriverExit"]["properties"]["host"] = {"type": "string"}
    new["defs"]["DriverState"]["enum"].append("resting")
    new["defs"]["Slept"] = {"type": "object", "properties": {"type": {"enum": ["slept"]}}, "required": ["type"]}
    new["defs"]["Entry"]["properties"]["record"]["anyOf"].append({"$ref": "Slept"})
    assert unread(old, new) == []


def stored_structs() -> Iterator[type[Any]]:
    """Yield every Streamkeeper type with a ``format`` field, which every stored type has."""
    for module in pkgutil.walk_packages(streamkeeper.__path__, "streamkeeper."):
        if not module.name.startswith(("streamkeeper.orchestration", "streamkeeper.inspection", "streamkeeper.driver")):
            importlib.import_module(module.name)
    waiting: list[type[Any]] = [msgspec.Struct]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("streamkeeper.") and "format" in kind.__struct_fields__:
                yield kind


def test_every_type_with_a_format_is_in_the_table_or_exempt() -> None:
    """Every type with a ``format`` field is in the table of stored types or exempt."""
    private = {kind for kind in stored_structs() if kind.__name__.startswith("_")}
    assert set(stored_structs()) - private - set(STORED.values()) - EXEMPT == set()
