"""Provides the schema of everything that is stored, and finds what of an older schema a newer version cannot read.

``python -m tests.model.stored_types`` prints the current schema, which becomes ``yesterday/schema-<version>.json`` of a
new version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.drill_messages import StateExport
from streamkeeper.model.protocol.driver_messages import Command, DriverExit, DriverStatus, LaunchSpec, ProcessRecord
from streamkeeper.model.protocol.signals import History
from streamkeeper.model.records.epoch_claim import EpochClaim
from streamkeeper.model.records.installation_record import Home, InstallationRecord, Owner
from streamkeeper.model.records.journal_records import Entry
from streamkeeper.model.records.snapshot import DrillResult, Garbage, Hold, Pin, Snapshot
from streamkeeper.model.runner_kinds.kubernetes_kind import Pod
from streamkeeper.model.runner_kinds.yarn_kind import Application
from streamkeeper.model.watch.fleet_index import FleetIndex, PruneRecord
from streamkeeper.model.watch.incident import IncidentEntry
from streamkeeper.operations.jobs.carriers import Carrier
from streamkeeper.registry.pending_questions import PendingQuestion
from streamkeeper.runners.local_process import Launcher
from streamkeeper.sinks.file_schemas import FileSchema
from streamkeeper.sinks.file_serving import EpochFile
from streamkeeper.snapshots.packs import PackIndex

STORED: dict[str, Any] = {
    "application": Application,
    "assessment": Assessment,
    "carrier": Carrier,
    "command": Command,
    "drill": DrillResult,
    "entry": Entry,
    "epoch claim": EpochClaim,
    "epoch file": EpochFile,
    "evidence": Evidence,
    "exit": DriverExit,
    "export": StateExport,
    "file schema": FileSchema,
    "fleet": FleetIndex,
    "garbage": Garbage,
    "history": History,
    "hold": Hold,
    "home": Home,
    "incident": IncidentEntry,
    "installation": InstallationRecord,
    "launch": LaunchSpec,
    "launcher": Launcher,
    "manifest": Manifest,
    "owner": Owner,
    "pack index": PackIndex,
    "pin": Pin,
    "pod": Pod,
    "process": ProcessRecord,
    "prune": PruneRecord,
    "question": PendingQuestion,
    "snapshot": Snapshot,
    "status": DriverStatus,
}
"""Stored types by their names in the store, which never change; the Python types may be renamed."""

Schema = dict[str, Any]


def schema_of_now() -> Schema:
    """Return the current schema without descriptions and defaults: ``roots`` maps each stored thing to its schema,
    ``defs`` contains the referenced definitions.
    """
    roots, definitions = msgspec.json.schema_components(STORED.values(), ref_template="{name}")
    bare = {name: _bare(each) for name, each in definitions.items()}
    return {"roots": {name: _bare(root) for name, root in zip(STORED, roots, strict=True)}, "defs": bare}


def unread(old: Schema, new: Schema) -> list[str]:
    """Return everything that the old schema allows and the new one cannot read, with its location."""
    seen: set[tuple[str, str]] = set()

    def compare(before: Schema, after: Schema, at: str) -> Iterator[str]:
        refs = before.get("$ref", ""), after.get("$ref", "")
        if any(refs):
            if all(refs) and refs in seen:
                return
            seen.add(refs)
            before, after = old["defs"].get(refs[0], before), new["defs"].get(refs[1], after)
        if "anyOf" in before or "anyOf" in after:
            yield from _in_unions(before.get("anyOf", [before]), after.get("anyOf", [after]), at)
        elif "enum" in before:
            if lost := set(before["enum"]) - set(after.get("enum", [])):
                yield f"{at}: {', '.join(map(str, sorted(lost)))} is no value any more"
        elif (kind := before.get("type")) != after.get("type") and (kind, after.get("type")) != ("integer", "number"):
            if after:
                yield f"{at}: was {kind}, is {after.get('type')}"
        elif kind == "object":
            yield from _in_objects(before, after, at)
        elif kind == "array":
            yield from _in_arrays(before, after, at)

    def _in_objects(before: Schema, after: Schema, at: str) -> Iterator[str]:
        fields, known = before.get("properties", {}), after.get("properties", {})
        for name, field in fields.items():
            if name in known:
                yield from compare(field, known[name], f"{at}.{name}")
            else:
                yield f"{at}.{name} is not read any more"
        for name in set(after.get("required", [])) - set(before.get("required", [])):
            yield f"{at}.{name} is required, and was not there or not always"
        if isinstance(values := before.get("additionalProperties"), dict):
            yield from compare(values, after.get("additionalProperties", {}), f"{at}[]")

    def _in_arrays(before: Schema, after: Schema, at: str) -> Iterator[str]:
        places, known = before.get("prefixItems", []), after.get("prefixItems", [])
        if len(known) < len(places):
            yield f"{at}: has {len(known)} places, had {len(places)}"
        for number, (one, other) in enumerate(zip(places, known, strict=False)):
            yield from compare(one, other, f"{at}[{number}]")
        if isinstance(before.get("items"), dict):
            items = after.get("items")
            yield from compare(before["items"], items if isinstance(items, dict) else {}, f"{at}[]")

    def _in_unions(before: list[Schema], after: list[Schema], at: str) -> Iterator[str]:
        known = {_kind(each, new): each for each in after}
        for each in before:
            kind = _kind(each, old)
            if kind in known:
                yield from compare(each, known[kind], f"{at}<{kind}>")
            else:
                yield f"{at}: {kind} is not read any more"

    found: list[str] = []
    for name, root in old["roots"].items():
        found += compare(root, new["roots"][name], name) if name in new["roots"] else [f"{name} is not read any more"]
    return found


def _kind(schema: Schema, of: Schema) -> str:
    """Return what distinguishes a member of a union: a record's tag, else its type."""
    found = of["defs"].get(schema.get("$ref", ""), schema)
    tags = [tag for field in found.get("properties", {}).values() for tag in field.get("enum", []) if len(field) == 1]
    return str(tags[0]) if found.get("type") == "object" and tags else str(found.get("type", "enum"))


def _bare(value: Any) -> Any:
    match value:
        case {"properties": dict(fields), **rest}:
            return {"properties": {name: _bare(each) for name, each in fields.items()}, **_bare(rest)}
        case dict():
            return {key: _bare(each) for key, each in value.items() if key not in ("description", "default", "title")}
        case list():
            return [_bare(each) for each in value]
        case _:
            return value


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema_of_now(), indent=1, sort_keys=True) + "\n")
