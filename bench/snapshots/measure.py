"""Runs rounds of the same four operations with every way in turn, measures each run and verifies that a restore returns
the same files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.snapshots import timed
from bench.snapshots.ways import Way
from harness.s3_server import S3Server
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.snapshots.anchor import find_anchor

OPERATIONS = ("full", "no change", "3 % changed", "restore")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one command; ``cpu_s`` is the user and system time of the client, ``rss_mb`` its largest resident size
    in MiB.

    ``requests`` are the requests by the server's own count; ``up_mb`` and ``down_mb`` are the contents of objects in
    10^6 bytes, without headers and listings; ``load`` is the machine's one-minute load average before the run.
    """

    wall_s: float
    cpu_s: float
    rss_mb: float
    requests: dict[str, int]
    up_mb: float
    down_mb: float
    load: float

    @property
    def all_requests(self) -> int:
        """The number of requests of every kind."""
        return sum(self.requests.values())


Samples = dict[str, dict[str, list[Sample]]]
"""Maps a way to its operations, and each operation to one sample per round."""


def run_rounds(
    server: S3Server,
    root: Path,
    ways: Sequence[type[Way]],
    *,
    rounds: int,
    scratch: Path,
    begin: Callable[[], None],
    change: Callable[[], None],
) -> Samples:
    """Run the rounds; ``begin`` brings the directory ``root`` to the state in which a round starts, and ``change`` to
    its changed state.
    """
    samples: Samples = {way.name: {operation: [] for operation in OPERATIONS} for way in ways}
    for number in range(rounds):
        begin()
        turn = [*ways[number % len(ways) :], *ways[: number % len(ways)]]
        beds = [_bed(server, way, scratch, number) for way in turn]
        try:
            for operation in OPERATIONS:
                if operation == "3 % changed":
                    change()
                for way, _ in beds:
                    command = way.bring(_target(scratch)) if operation == "restore" else way.take(root)
                    sample = measured(server, command, way.environment)
                    samples[way.name][operation].append(sample)
                    print(f"  round {number + 1}: {operation}: {way.name}: {_line(sample)}", flush=True)
                    if operation == "restore":
                        _require_same(way, root, _target(scratch), contents=number == 0)
                        shutil.rmtree(_target(scratch))
        finally:
            for _, bucket in beds:
                server.drop_bucket(bucket)
            shutil.rmtree(scratch, ignore_errors=True)
    return samples


def measured(server: S3Server, command: list[str], environment: dict[str, str]) -> Sample:
    """Run and measure one command after syncing the machine's disk; raises SystemExit when the command fails."""
    folder = Path(environment["HOME"])
    result, output = folder / "timed.json", folder / "output"
    os.sync()
    time.sleep(0.5)
    load, before = os.getloadavg()[0], server.counted()
    with output.open("wb") as log:
        words = [sys.executable, "-I", "-S", timed.__file__, str(result), *command]
        subprocess.run(words, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    time.sleep(0.1)
    counted, taken = server.counted().since(before), json.loads(result.read_text())
    if taken.pop("exit") != 0:
        raise SystemExit(f"{' '.join(command)}: {output.read_text(errors='replace')[-3000:]}")
    return Sample(
        **taken,
        requests=counted.requests,
        up_mb=round(counted.received / 1e6, 3),
        down_mb=round(counted.sent / 1e6, 3),
        load=round(load, 2),
    )


def file_sizes(root: Path) -> dict[str, int]:
    """Return the size in bytes of every file below a directory, by path."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = path.stat().st_size
    return found


def files_to_go_on_from(root: Path) -> list[str]:
    """Return the closed set of the newest batch: the files that a query needs to continue from it."""
    tree = LocalTree(root)
    anchor = find_anchor(tree)
    return closed_set(tree, anchor.batch, pending=anchor.pending)


def _bed(server: S3Server, way: type[Way], scratch: Path, number: int) -> tuple[Way, str]:
    name = way.name.replace(" ", "-").replace(",", "")
    bucket = f"{name}-{number}-{time.time_ns():x}"[:63]
    (scratch / name).mkdir(parents=True)
    server.make_bucket(bucket)
    bed = way(server, bucket, scratch / name)
    if command := bed.prepare():
        measured(server, command, bed.environment)
    return bed, bucket


def _target(scratch: Path) -> Path:
    return scratch / "restored"


def _require_same(way: Way, root: Path, target: Path, *, contents: bool) -> None:
    found, wanted = file_sizes(way.restored(root, target)), file_sizes(root)
    if not way.copies_all:
        wanted = {path: wanted[path] for path in files_to_go_on_from(root)}
    if found != wanted:
        raise SystemExit(f"{way.name} restored {len(found)} files, not the {len(wanted)} that there are")
    for path in wanted if contents else ():
        if (way.restored(root, target) / path).read_bytes() != (root / path).read_bytes():
            raise SystemExit(f"{way.name} restored another {path}")


def as_json(samples: Samples) -> dict[str, Any]:
    """Convert samples for the report."""
    found: dict[str, Any] = msgspec.to_builtins(samples)
    return found


def from_json(found: dict[str, Any]) -> Samples:
    """Read samples from a report."""
    return msgspec.convert(found, Samples)


def _line(sample: Sample) -> str:
    return (
        f"{sample.wall_s:.2f} s, cpu {sample.cpu_s:.2f} s, {sample.all_requests:,} requests {sample.requests},"
        f" up {sample.up_mb:.1f} MB, down {sample.down_mb:.1f} MB, {sample.rss_mb:.0f} MiB, load {sample.load}"
    )
