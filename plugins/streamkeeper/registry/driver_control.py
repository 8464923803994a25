"""The messages between operations and one driver instance: ``control/<job>/<instance>/`` in the store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from streamkeeper.errors import FormatTooNew, KeyExists, KeyMissing, RegistryDamaged
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.names import check_instance, check_name, key_number
from streamkeeper.model.protocol import driver_messages
from streamkeeper.model.protocol.driver_messages import (
    Command,
    CommandKind,
    DriverExit,
    DriverStatus,
    LaunchSpec,
    ProcessRecord,
    command_key,
    control_key,
)
from streamkeeper.model.protocol.signals import History
from streamkeeper.model.redaction import redact_value
from streamkeeper.model.runner_kinds.runner_kind import Place
from streamkeeper.model.secret_names import with_literals
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point

T = TypeVar("T")
P = TypeVar("P", bound=Place)
_MOST_KEPT = 4096
_UNREADABLE_STATUS = (
    "wait if the driver is running, because it writes its status again. The status of an ended driver is the record of"
    " its last commits: put the file back, or follow docs/operations/runbook.md,"
    ' "The last status of a driver cannot be read"'
)
_literals: dict[tuple[str, str, str], dict[str, str]] = {}
"""(store, job, instance) -> the secrets that its launch contains literally. Cached, because a launch never changes and
pages read it often.
"""


def instances(store: Store, job: str) -> list[str]:
    """Return the names of all instances of a job that have a control folder, in order; other files are skipped."""
    folder = control_key(check_name("job", job), "")
    return sorted(
        {inside[0] for key in store.list(folder) if len(inside := key.removeprefix(folder).split("/", 1)) > 1}
    )


def stray_orders(store: Store, job: str) -> list[str]:
    """Return every key in the command folders of the job's instances that is not the key of a command.

    Drivers skip such keys. Costs one list request.
    """
    folder = control_key(check_name("job", job), "")
    strays = []
    for key in store.list(folder):
        instance, _, inside = key.removeprefix(folder).partition("/")
        if inside.startswith("commands/") and key_number(key, partial(command_key, job, instance)) is None:
            strays.append(key)
    return strays


class Control:
    """One instance's control folder: its records are create-only, except for status, history and evidence.

    Other files in the folder are skipped. The object has no state, so threads may share it.
    """

    def __init__(self, store: Store, job: str, instance: str) -> None:
        self._store = store
        self._job = check_name("job", job)
        self._instance = check_instance(instance)

    def write_launch(self, spec: LaunchSpec) -> bool:
        """Store the driver's launch. If a launch is stored already, keep that launch and return False."""
        try:
            self._store.create(self._key("launch.json"), to_json(spec))
        except KeyExists:
            return False
        return True

    def read_launch(self) -> LaunchSpec | None:
        """Return the driver's launch; None if none is stored."""
        return self._read(self._key("launch.json"), LaunchSpec)

    def write_place(self, place: P) -> P:
        """Record where a cluster will run the instance; return the place that the first caller recorded."""
        try:
            self._store.create(self._key(place.FILE), to_json(place))
        except KeyExists:
            return self._require(self._key(place.FILE), type(place))
        return place

    def read_place(self, kind: type[P]) -> P | None:
        """Return where a cluster runs the instance; None if no place of this kind is recorded."""
        return self._read(self._key(kind.FILE), kind)

    def write_process(self, record: ProcessRecord) -> None:
        """Claim a generation for one process; raises KeyExists if another process has claimed it."""
        self._store.create(self._process_key(record.generation), to_json(record))

    def read_process(self, generation: int) -> ProcessRecord | None:
        """Return the process that has claimed a generation; None if no process has."""
        return self._read(self._process_key(generation), ProcessRecord)

    def processes(self) -> list[ProcessRecord]:
        """Return all processes that ever claimed a generation, oldest first."""
        first = self._key("process-")
        keys = self._store.list(self._key(""), after=first)
        records = [self._require(key, ProcessRecord) for key in keys if key_number(key, self._process_key)]
        return sorted(records, key=lambda record: record.generation)

    def write_status(self, status: DriverStatus) -> None:
        """Replace the driver's stored report."""
        self._store.replace(self._key("status.json"), to_json(status))

    def find_status(self) -> DriverStatus | None:
        """Return the driver's last report; None if there is no readable report. Do not use this to prove what was
        committed.
        """
        try:
            return self.read_status()
        except (FormatTooNew, RegistryDamaged):
            return None

    def read_status(self) -> DriverStatus | None:
        """Return the driver's last report; None if none is stored.

        Raises FormatTooNew if a newer version wrote the report, and RegistryDamaged, with the remedy, if it cannot be
        read.
        """
        try:
            status = self._read(self._key("status.json"), DriverStatus)
        except RegistryDamaged as error:
            raise RegistryDamaged(error.message, hint=_UNREADABLE_STATUS) from error
        if status is None:
            return None
        errors = (status.error, status.waiting, *(query.error for query in status.queries.values()))
        return self._without_literals(status) if any(errors) else status

    def write_history(self, history: History) -> None:
        """Replace the driver's stored measurements of the last hours."""
        self._store.replace(self._key("history.json"), to_json(history))

    def read_history(self) -> History | None:
        """Return the driver's measurements of the last hours; None if they do not exist or cannot be read."""
        try:
            return self._read(self._key("history.json"), History)
        except (FormatTooNew, RegistryDamaged):
            return None

    def send(
        self,
        kind: CommandKind,
        operation: str,
        versions: Mapping[str, str] | None = None,
        *,
        may_differ: Mapping[str, tuple[str, ...]] | None = None,
        output_losses: Mapping[str, int] | None = None,
        other_topics: Mapping[str, dict[str, str]] | None = None,
    ) -> Command:
        """Send a command, and return it. If the operation has already sent a command of this kind, return that command
        instead.

        ``kind``: the command.
        ``operation``: the operation that sends it.
        ``versions``: as in Command.
        ``may_differ``: as in Command.
        ``output_losses``: as in Command.
        ``other_topics``: query -> Kafka topic -> its id, as ``approved_topics`` in Command; a query is included even if
        it has no topic ids.
        """
        while True:
            known = self.commands(0)
            for command in known:
                if command.kind is kind and command.operation == operation:
                    return command
            command = Command(
                number=len(known) + 1,
                kind=kind,
                operation=operation,
                versions=dict(versions or {}),
                may_differ=dict(may_differ or {}),
                output_losses=dict(output_losses or {}),
                other_topics=tuple(other_topics or ()),
                approved_topics={query: topics for query, topics in (other_topics or {}).items() if topics},
            )
            crash_point(f"command.{kind.value}.before")
            try:
                self._store.create(command_key(self._job, self._instance, command.number), to_json(command))
            except KeyExists:
                continue
            crash_point(f"command.{kind.value}.after")
            return command

    def records(self) -> frozenset[str]:
        """Return the names of the records that exist, such as ``exit.json``. Costs one list request and no read."""
        folder = self._key("")
        return frozenset(key.removeprefix(folder) for key in self._store.list(folder))

    def commands(self, after: int) -> list[Command]:
        """Return the commands with a number above ``after``, in order. Costs one list request and one read per
        command."""
        keys = self._store.list(self._key("commands", ""), after=command_key(self._job, self._instance, after))
        numbers = (key_number(key, partial(command_key, self._job, self._instance)) for key in keys)
        newest = max((number for number in numbers if number is not None), default=after)
        # By number, because a listing taken during other writes may miss a command and show its successor.
        return [self._command(number) for number in range(after + 1, newest + 1)]

    def write_manifests(self, manifests: Mapping[str, Manifest]) -> dict[str, Manifest]:
        """Store the manifests by query, unless an earlier generation has done so; return the stored manifests."""
        data = to_json(dict(manifests))
        stored = None if self._create_or_same("manifests.json", data) else self.read_manifests()
        return dict(manifests) if stored is None else stored

    def read_manifests(self) -> dict[str, Manifest] | None:
        """Return the stored manifests, by query; None before the driver has described itself."""
        key = self._key("manifests.json")
        try:
            return from_json(self._store.read(key), dict[str, Manifest], where=key)
        except KeyMissing:
            return None

    def write_evidence(self, evidence: Evidence) -> None:
        """Replace the stored evidence of this instance. Each generation of the instance gathers its evidence anew."""
        self._store.replace(self._key("evidence.json"), to_json(evidence))

    def read_evidence(self) -> Evidence | None:
        """Return the evidence that this instance has gathered; None if it was not requested or is not complete yet."""
        return self._read(self._key("evidence.json"), Evidence)

    def write_exit(self, ending: DriverExit) -> None:
        """Store the instance's final record. The same record may be stored again; a different one raises KeyExists."""
        if not self._create_or_same("exit.json", to_json(ending)):
            raise KeyExists(self._key("exit.json"))

    def read_exit(self) -> DriverExit | None:
        """Return how the instance ended; None until the instance's supervisor has recorded that."""
        end = self._read(self._key("exit.json"), DriverExit)
        return self._without_literals(end) if end is not None and end.error else end

    def _without_literals(self, record: T) -> T:
        """Redact the secrets that the launch's params and conf contain literally, because drivers of earlier versions
        did not mask them.
        """
        place = (self._store.url, self._job, self._instance)
        if place not in _literals:
            try:
                launch = self.read_launch()
            except (FormatTooNew, RegistryDamaged):
                return record
            if len(_literals) >= _MOST_KEPT:
                _literals.clear()
            # An instance with records was launched before.
            _literals[place] = with_literals({}, launch.params, launch.conf) if launch is not None else {}
        return redact_value(record, _literals[place])

    def _key(self, *parts: str) -> str:
        return control_key(self._job, self._instance, *parts)

    def _process_key(self, generation: int) -> str:
        return self._key(f"process-{generation:04d}.json")

    def _command(self, number: int) -> Command:
        return self._require(command_key(self._job, self._instance, number), Command)

    def _create_or_same(self, name: str, data: bytes) -> bool:
        key = self._key(name)
        try:
            self._store.create(key, data)
        except KeyExists:
            return self._store.read(key) == data
        return True

    def _read(self, key: str, kind: type[T]) -> T | None:
        try:
            data = self._store.read(key)
        except KeyMissing:
            return None
        return from_json(data, kind, where=key, newest_format=driver_messages.FORMAT)

    def _require(self, key: str, kind: type[T]) -> T:
        found = self._read(key, kind)
        if found is None:
            raise RegistryDamaged(f"{key} is missing")
        return found
