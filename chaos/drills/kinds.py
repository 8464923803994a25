"""Every kind of fault: how it is made, what the watch and the diagnosis must report, and what has to mend it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import msgspec

from chaos.drills.drill import BETWEEN_S, Drill
from chaos.drills.lost_node import allow_little_silence, node_lost
from chaos.drills.on_operations import recovery_killed, two_schedulers
from chaos.drills.on_topics import on_a_topic, retention_past
from harness.bed import fresh_bed

JOBS = [Path(__file__).parents[1] / "jobs/ledgers.py"]
_STALE_S = 75.0


@contextmanager
def _on_files(root: Path, seed: int, off: str) -> Iterator[Drill]:
    """Provide a drill on an installation that reads files."""
    with fresh_bed(root, JOBS) as bed:
        yield Drill(bed, seed, off)


class Kind(msgspec.Struct, frozen=True):
    """A kind of fault; an incident of any of ``rules`` names its cause, as does any diagnosis in ``causes``; for
    ``mend`` see ``Drill``.

    ``snapshots``: whether a snapshot is taken before the fault; ``waits_s``: seconds from the fault to the first pass;
    ``before``: prepares the installation before it serves; ``options``: options of its deploy; ``installation``: opens
    the installation for the drill; ``between_s``: seconds from one pass to the next.
    """

    breaks: Callable[[Drill, random.Random], None]
    rules: tuple[str, ...]
    causes: tuple[str, ...]
    mend: str
    snapshots: bool = False
    waits_s: float = 2.0
    before: Callable[[Drill], None] | None = None
    options: tuple[str, ...] = ()
    installation: Callable[[Path, int, str], AbstractContextManager[Drill]] = _on_files
    between_s: float = BETWEEN_S


def _driver_killed(drill: Drill, chance: random.Random) -> None:
    drill.kill()
    drill.did.append("every process is killed")


def _supervisor_killed(drill: Drill, chance: random.Random) -> None:
    drill.send("supervisor", signal.SIGKILL)
    drill.send("python", signal.SIGKILL)


def _jvm_killed(drill: Drill, chance: random.Random) -> None:
    drill.send("jvm", signal.SIGKILL)


def _frozen(kind: str) -> Callable[[Drill, random.Random], None]:
    def freeze(drill: Drill, chance: random.Random) -> None:
        drill.send(kind, signal.SIGSTOP)
        drill.undo = lambda: drill.send(kind, signal.SIGCONT)

    return freeze


def _all_frozen(drill: Drill, chance: random.Random) -> None:
    kinds = ("supervisor", "python", "jvm")
    for kind in kinds:
        drill.send(kind, signal.SIGSTOP)

    def wake() -> None:
        for kind in kinds:
            drill.send(kind, signal.SIGCONT)

    drill.undo = wake


def _rebooted(drill: Drill, chance: random.Random) -> None:
    """Imitate a reboot as far as possible: no process lives, and the records have a different boot id."""
    drill.kill()
    folder = drill.bed.home / "store" / "control"
    for record in folder.rglob("process-*.json"):
        text = record.read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        record.write_text(text.replace(boot, "00000000-0000-4000-8000-000000000000"))
    drill.did.append("every process is gone, and the machine has another boot id")


def _crash_loop(drill: Drill, chance: random.Random) -> None:
    """Replace the audit's file by a directory, so that the user's function fails with every batch."""
    audit = drill.output / "audit.jsonl"
    hidden = drill.bed.root / "audit.hidden"
    os.rename(audit, hidden)
    audit.mkdir()

    def undo() -> None:
        audit.rmdir()
        os.rename(hidden, audit)

    drill.undo = undo
    drill.did.append("the user's function fails with every batch")
    drill.feed()


def _commit_deleted(drill: Drill, chance: random.Random) -> None:
    """Delete the newest commit, as a crash of the machine may do too: the batch is replayed under its own id."""
    drill.kill()
    file = drill.newest("totals", "commits")
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    drill.did.append("the newest commit of totals is deleted")


def _commits_deleted(drill: Drill, chance: random.Random) -> None:
    """Delete the two newest commits, which is more than a crash can do."""
    _commit_deleted(drill, chance)
    _commit_deleted(drill, chance)
    drill.did.append("and the one before it")


def _offset_cut(drill: Drill, chance: random.Random) -> None:
    drill.kill()
    file = drill.newest("totals", "offsets")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_bytes(file.read_bytes()[: chance.randint(3, 20)])
    drill.did.append("the newest offsets of totals are cut short")


def _state_deleted(drill: Drill, chance: random.Random) -> None:
    drill.kill()
    newest = {file.parent: file for file in drill.state_files("totals")}
    for file in newest.values():
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    if not newest:
        drill.damage.append("totals has no state file: nothing is broken")
    drill.did.append("the newest state file of every partition of totals is deleted")


def _state_flipped(drill: Drill, chance: random.Random) -> None:
    drill.kill()
    for file in list(drill.state_files("totals")):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(bytes(content))
    drill.did.append("a byte of every state file of totals is flipped")


def _checkpoint_gone(drill: Drill, chance: random.Random) -> None:
    drill.kill()
    query = drill.way("totals", "copies")
    shutil.rmtree(drill.checkpoint(query))
    drill.did.append(f"the checkpoint of {query} is deleted")


def _checkpoint_unmounted(drill: Drill, chance: random.Random) -> None:
    directory = drill.checkpoint("copies")
    hidden = drill.take_away(directory)
    drill.undo = lambda: drill.put_back(hidden, directory)
    drill.did.append("the checkpoint of copies is moved away under its driver")
    drill.feed()


def _sink_ahead(drill: Drill, chance: random.Random) -> None:
    """Replace the checkpoint by an older copy, without using a command."""
    directory = drill.checkpoint("totals")
    older = drill.bed.root / "older"
    shutil.copytree(directory, older)
    drill.more()
    drill.kill()
    shutil.rmtree(directory)
    os.rename(older, directory)
    drill.did.append("the checkpoint of totals is an older copy")


def _sink_down(drill: Drill, chance: random.Random) -> None:
    """Hold the lock of the database for three minutes."""
    database = drill.output / "warehouse.db"
    held = (
        "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('begin exclusive'); print('held', flush=True); time.sleep(3600)"
    )
    holder = subprocess.Popen(["python3", "-c", held, str(database)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    drill.did.append("the table's database takes no write")
    drill.bed.start_producer(rows=5, every_s=1.0, seed=77)
    began = time.monotonic()

    def undo() -> None:
        time.sleep(max(0.0, 180.0 - (time.monotonic() - began)))
        holder.kill()
        holder.wait()
        drill.bed.stop_producer()

    drill.undo = undo


def _files_of(directory: Path, batch: str) -> set[str]:
    """Return the names of the files that a batch of a file source reads."""
    number = json.loads((directory / "offsets" / batch).read_text().splitlines()[-1])["logOffset"]
    log = directory / "sources" / "0" / str(number)
    lines = (log if log.exists() else log.with_suffix(".compact")).read_text().splitlines()[1:]
    return {Path(each["path"]).name for each in map(json.loads, lines) if each["batchId"] == number}


def _source_files_deleted(drill: Drill, chance: random.Random) -> None:
    """Remove the files of a batch that is planned but not committed."""
    directory = drill.checkpoint("totals")
    drill.kill()
    commit = drill.newest("totals", "commits")
    batch = commit.name
    commit.unlink()
    commit.with_name(f".{batch}.crc").unlink(missing_ok=True)
    hidden = drill.bed.root / "hidden-input"
    hidden.mkdir()
    gone = [each for each in (drill.bed.input / "sales").iterdir() if each.name in _files_of(directory, batch)]
    if not gone:
        drill.damage.append(f"batch {batch} of totals read no files: nothing is broken")
    for each in gone:
        shutil.move(str(each), hidden / each.name)
    drill.did.append(f"{len(gone)} files of an open batch of totals are deleted")

    def undo() -> None:
        for each in hidden.iterdir():
            shutil.move(str(each), drill.bed.input / "sales" / each.name)

    drill.undo = undo


def _store_gone(drill: Drill, chance: random.Random) -> None:
    """Make the store unreachable for longer than a lease."""
    store = drill.bed.home / "store"
    hidden = drill.take_away(store)
    store.write_text("not a directory")
    drill.did.append("the store is out of reach for longer than a lease")

    def undo() -> None:
        store.unlink()
        os.rename(hidden, store)

    drill.undo = undo


def _small_disk(drill: Drill) -> None:
    """Put the checkpoints on a disk of their own, of 64 MB."""
    folder = drill.bed.home / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    drill.after.append(lambda: subprocess.run(["umount", "-l", str(folder)], check=True))


def _disk_full(drill: Drill, chance: random.Random) -> None:
    """Fill the disk of the checkpoints with a file."""
    filler = drill.bed.home / "checkpoints" / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    drill.did.append("the checkpoints' disk is full")
    drill.undo = filler.unlink
    drill.feed()


def _out_of_memory(drill: Drill, chance: random.Random) -> None:
    """Make the user's function collect an unbounded list with every batch."""
    unbounded = drill.output / "audit.jsonl.unbounded"
    unbounded.touch()
    drill.undo = unbounded.unlink
    drill.did.append("the user's function fills the JVM's heap with every batch")
    drill.feed()


def _journal_lost(drill: Drill, chance: random.Random) -> None:
    """Hide the job's folder in the registry, only its journal, or the folder together with the watch's index; in one of
    the ways its driver is still running.
    """
    how = drill.way("registry folder", "journal", "registry folder under its driver", "registry folder and index")
    registry = drill.bed.home / "store" / "registry" / "ledgers"
    lost = registry / "journal" if how == "journal" else registry
    if "under its driver" not in how:
        drill.kill()
    hidden = drill.take_away(lost)
    if "index" in how:
        (drill.bed.home / "store" / "fleet" / "index.json").unlink()
    drill.undo = lambda: drill.put_back(hidden, lost)
    drill.did.append(f"lost: {how}")
    listed = drill.run("jobs", "--now").stdout
    if "ledgers" not in listed:
        drill.damage.append(f"the job is in no list: {listed[-200:]}")


KINDS = {
    "driver-killed": Kind(_driver_killed, ("driver-dead",), ("driver-killed",), "watch"),
    "supervisor-killed": Kind(_supervisor_killed, ("driver-dead",), ("driver-killed",), "watch"),
    "jvm-killed": Kind(
        _jvm_killed, ("restarts", "crash-loop"), ("driver-starting", "driver-failed", "nothing-wrong"), "itself"
    ),
    "python-frozen": Kind(
        _frozen("python"), ("frozen", "heartbeat-lost"), ("driver-frozen",), "undo", waits_s=_STALE_S
    ),
    "jvm-frozen": Kind(
        _frozen("jvm"), ("frozen", "stalled", "heartbeat-lost"), ("driver-frozen",), "undo", waits_s=_STALE_S
    ),
    "supervisor-frozen": Kind(
        _frozen("supervisor"),
        ("frozen", "frozen-in-part"),
        ("driver-frozen", "nothing-wrong"),
        "undo",
        waits_s=_STALE_S,
        # How long it is frozen is known from two passes.
        between_s=35.0,
    ),
    "all-frozen": Kind(_all_frozen, ("frozen", "heartbeat-lost"), ("driver-frozen",), "undo", waits_s=_STALE_S),
    "journal-lost": Kind(_journal_lost, ("journal-lost",), ("journal-lost",), "undo"),
    "node-lost": Kind(
        node_lost,
        ("driver-lost",),
        ("driver-unreachable",),
        "undo+restore",
        before=allow_little_silence,
        between_s=25.0,
    ),
    "rebooted": Kind(_rebooted, ("machine-rebooted",), ("machine-rebooted",), "watch"),
    "crash-loop": Kind(_crash_loop, ("crash-loop", "restarts"), ("batch-fails", "driver-failed"), "undo", waits_s=45.0),
    "commit-deleted": Kind(_commit_deleted, ("driver-dead",), ("driver-killed",), "watch"),
    "commits-deleted": Kind(
        _commits_deleted,
        ("checkpoint-missing", "checkpoint-damaged"),
        ("checkpoint-lost", "checkpoint-damaged"),
        "restore",
        snapshots=True,
    ),
    "offset-cut": Kind(
        _offset_cut,
        ("checkpoint-damaged", "checkpoint-missing"),
        ("checkpoint-damaged", "checkpoint-lost"),
        "restore",
        snapshots=True,
    ),
    "state-deleted": Kind(
        _state_deleted, ("checkpoint-damaged",), ("checkpoint-damaged",), "restore", snapshots=True, waits_s=60.0
    ),
    "state-flipped": Kind(
        _state_flipped,
        ("checkpoint-damaged",),
        ("checkpoint-damaged", "batch-fails"),
        "restore",
        snapshots=True,
        waits_s=60.0,
    ),
    "checkpoint-gone": Kind(_checkpoint_gone, ("checkpoint-missing",), ("checkpoint-lost",), "restore", snapshots=True),
    "checkpoint-unmounted": Kind(
        _checkpoint_unmounted, ("checkpoint-missing",), ("checkpoint-lost",), "undo+restart", waits_s=20.0
    ),
    "sink-ahead": Kind(
        _sink_ahead, ("checkpoint-missing", "sink-ahead"), ("checkpoint-lost", "sink-ahead"), "restore", snapshots=True
    ),
    "sink-down": Kind(_sink_down, ("sink-down",), ("sink-down",), "undo", waits_s=60.0),
    "source-files-deleted": Kind(
        _source_files_deleted,
        ("input-gone",),
        ("input-gone",),
        "undo",
    ),
    "store-gone": Kind(_store_gone, ("store-out-of-reach",), ("store-out-of-reach",), "undo", waits_s=_STALE_S),
    "disk-full": Kind(_disk_full, ("disk-full",), ("disk-full",), "undo", waits_s=40.0, before=_small_disk),
    "out-of-memory": Kind(
        _out_of_memory,
        ("out-of-memory",),
        ("out-of-memory",),
        "undo",
        waits_s=20.0,
        options=("--conf", "spark.driver.memory=640m"),
    ),
    "retention-past": Kind(
        retention_past,
        ("source-offset-lost",),
        ("source-offset-lost",),
        "pass-over",
        installation=on_a_topic,
        waits_s=0.0,
    ),
    "two-schedulers": Kind(two_schedulers, ("driver-dead",), ("driver-killed",), "watch"),
    "recovery-killed": Kind(recovery_killed, ("checkpoint-missing",), ("checkpoint-lost",), "itself", snapshots=True),
}
"""The kinds of faults, each with what names it."""
