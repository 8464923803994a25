"""Tests a driver's control folder: commands that are given once, files that are written once, and the cost of reading
them.
"""

from __future__ import annotations

import pytest

from harness.fault_store import FaultStore
from streamkeeper.errors import FormatTooNew, InvalidInput, KeyExists, RegistryDamaged
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription
from streamkeeper.model.protocol.driver_messages import (
    Command,
    CommandKind,
    DriverExit,
    DriverState,
    DriverStatus,
    LaunchMode,
    LaunchSpec,
    ProcessRecord,
)
from streamkeeper.registry.driver_control import Control, instances
from streamkeeper.stores.counting import CountingStore
from tests.contracts.memory_store import MemoryStore


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def control(store: CountingStore) -> Control:
    return Control(store, "sales", "deploy-1-candidate-1")


def launch(release: str = "r0001") -> LaunchSpec:
    return LaunchSpec(
        instance="deploy-1-candidate-1",
        job="sales",
        release=release,
        mode=LaunchMode.STANDBY,
        bundle="0" * 64,
        entry="sales.py",
        params={"rate": 1.5, "input": "/in"},
        conf={},
        checkpoints="/checkpoints",
    )


def process(generation: int) -> ProcessRecord:
    return ProcessRecord(
        instance="deploy-1-candidate-1", generation=generation, machine="m", host="h", pid=100 + generation, started=7
    )


def status(beat: int) -> DriverStatus:
    return DriverStatus(
        instance="deploy-1-candidate-1", release="r0001", generation=1, state=DriverState.STANDBY, beat=beat, at=""
    )


def manifest(plan: str) -> Manifest:
    return Manifest(
        query="totals",
        spark_version="4.2.0",
        sources=(),
        watermarks=(),
        operators=(),
        plan=plan,
        output_schema="",
        output_mode="append",
        trigger="5 seconds",
        sink=SinkDescription(kind="table", output="t", options={}),
        confs={},
        functions={},
    )


def test_empty_folder_reads_as_nothing(control: Control) -> None:
    """Every read of an empty control folder returns nothing and raises no error."""
    assert control.read_launch() is None
    assert control.read_status() is None
    assert control.read_manifests() is None
    assert control.read_exit() is None
    assert control.processes() == []
    assert control.commands(0) == []


def test_a_second_launch_changes_nothing(control: Control) -> None:
    """A launch is written once: a second one returns false and changes nothing."""
    assert control.write_launch(launch("r0001"))
    assert not control.write_launch(launch("r0002"))
    assert control.read_launch() == launch("r0001")


def test_generation_is_claimed_once(control: Control) -> None:
    """A second supervisor that claims the same generation gets ``KeyExists``, and all generations are listed in
    order.
    """
    for generation in (1, 2, 10):
        control.write_process(process(generation))
    with pytest.raises(KeyExists):
        control.write_process(process(2))
    control.write_status(status(1))
    control.send(CommandKind.STOP, "deploy-1")
    assert control.processes() == [process(1), process(2), process(10)]


def test_status_is_replaced(control: Control) -> None:
    """A new status replaces the earlier one."""
    control.write_status(status(1))
    control.write_status(status(2))
    assert control.read_status() == status(2)


def test_a_command_is_sent_once_per_operation_and_kind(control: Control) -> None:
    """Repeating an operation's command returns the command that it sent before, while a different operation's command
    is a new one.
    """
    go = control.send(CommandKind.GO, "deploy-1", {"totals": "v0001"})
    assert go == Command(number=1, kind=CommandKind.GO, operation="deploy-1", versions={"totals": "v0001"})
    assert control.send(CommandKind.GO, "deploy-1", {"totals": "v0001"}) == go
    drain = control.send(CommandKind.DRAIN, "deploy-2")
    assert drain.number == 2
    assert control.commands(0) == [go, drain]
    assert control.commands(1) == [drain]


def test_checking_for_commands_costs_one_request(control: Control, store: CountingStore) -> None:
    """Checking for commands costs one list request if there is no new one, and one more read for each new command."""
    control.send(CommandKind.GO, "deploy-1")
    store.requests = 0
    assert control.commands(1) == []
    assert store.requests == 1
    control.send(CommandKind.DRAIN, "deploy-2")
    store.requests = 0
    assert len(control.commands(1)) == 1
    assert store.requests == 2


def test_listing_records_costs_one_request(control: Control, store: CountingStore) -> None:
    """Listing the records of a control folder costs one request and reads none of them."""
    assert control.records() == frozenset()
    control.write_launch(launch())
    control.write_manifests({})
    control.send(CommandKind.DRAIN, "deploy-1")
    store.requests = 0
    assert control.records() == {"launch.json", "manifests.json", "commands/000001.json"}
    assert store.requests == 1


def test_two_concurrent_commands_get_different_numbers() -> None:
    """Two operations that send a command at the same moment get two different numbers."""
    store = MemoryStore()

    def overtake(call: str, key: str) -> None:
        if call == "create" and not store.values:
            Control(store, "sales", "i").send(CommandKind.STOP, "other")

    assert Control(FaultStore(store, overtake), "sales", "i").send(CommandKind.GO, "mine").number == 2
    assert [each.operation for each in Control(store, "sales", "i").commands(0)] == ["other", "mine"]


def test_a_gap_in_the_commands_is_reported_as_damage(control: Control, store: CountingStore) -> None:
    """A gap in the numbered commands is reported as damage and not skipped."""
    for operation in ("a", "b"):
        control.send(CommandKind.GO, operation)
    store.delete("control/sales/deploy-1-candidate-1/commands/000001.json")
    with pytest.raises(RegistryDamaged, match=r"000001\.json is missing"):
        control.commands(0)


@pytest.mark.parametrize("name", ["0000000002.json.bak", "README", "2.json", "copy-of-0000000001.json"])
def test_a_foreign_file_among_the_commands_is_ignored(control: Control, store: CountingStore, name: str) -> None:
    """A foreign file among the commands is ignored: it raises no error, hides no command and takes no number."""
    first = control.send(CommandKind.DRAIN, "op-1")
    store.create(f"control/sales/deploy-1-candidate-1/commands/{name}", b"a note")
    second = control.send(CommandKind.STOP, "op-1")
    assert control.commands(0) == [first, second]


def test_stray_file_among_the_processes_is_passed_over(control: Control, store: CountingStore) -> None:
    """A copy of a process record does not count as a claim, and a file next to the instance folders does not count as
    an instance.
    """
    control.write_process(process(1))
    for stray in ("deploy-1-candidate-1/process-0002.json.bak", "deploy-1-candidate-1/process-2.json", "notes.txt"):
        store.create(f"control/sales/{stray}", b"a note")
    assert control.processes() == [process(1)]
    assert instances(store, "sales") == ["deploy-1-candidate-1"]


def test_manifests_are_written_once(control: Control) -> None:
    """A restarted driver gets the manifests that were stored first, whatever it describes now."""
    for now in ("a", "a", "b"):
        assert control.write_manifests({"totals": manifest(now)}) == {"totals": manifest("a")}
    assert control.read_manifests() == {"totals": manifest("a")}


def test_the_exit_of_a_driver_is_written_once(control: Control) -> None:
    """A driver's exit is written once: writing the same exit a second time succeeds, and a different one raises
    ``KeyExists``.
    """
    ending = DriverExit(instance="deploy-1-candidate-1", state=DriverState.DRAINED, code=0)
    control.write_exit(ending)
    control.write_exit(ending)
    with pytest.raises(KeyExists):
        control.write_exit(DriverExit(instance="deploy-1-candidate-1", state=DriverState.FAILED, code=5))
    assert control.read_exit() == ending


def test_instances_are_listed_by_job(store: CountingStore) -> None:
    """Each instance of a job is listed once, and those of other jobs are not listed."""
    for job, name in [("sales", "b"), ("sales", "a-b"), ("sales", "a"), ("sales2", "c"), ("sale", "d")]:
        Control(store, job, name).write_status(status(1))
        Control(store, job, name).write_process(process(1))
    assert instances(store, "sales") == ["a", "a-b", "b"]
    assert instances(store, "none") == []


def test_torn_and_newer_files_are_reported_with_their_key(control: Control, store: CountingStore) -> None:
    """A torn file is reported as damage and one of a newer format as too new; both errors name the key."""
    store.replace("control/sales/deploy-1-candidate-1/status.json", b"{")
    with pytest.raises(RegistryDamaged, match=r"status\.json cannot be read"):
        control.read_status()
    store.replace("control/sales/deploy-1-candidate-1/launch.json", b'{"format":99}')
    with pytest.raises(FormatTooNew, match=r"launch\.json has format 99"):
        control.read_launch()


@pytest.mark.parametrize(("job", "instance"), [("../x", "i"), ("sales", "../x"), ("sales", ""), ("Sales", "i")])
def test_names_are_checked(job: str, instance: str) -> None:
    """Invalid job and instance names are refused, so that a control folder never lies outside its place."""
    with pytest.raises(InvalidInput):
        Control(MemoryStore(), job, instance)
