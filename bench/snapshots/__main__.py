"""``python -m bench.snapshots``: compare snapshots of checkpoints with restic, rclone and s5cmd in one run.

One S3 server on this machine, three checkpoints and four operations: full, no change, about 3 % of the files changed,
and restore. A peer copies the directory; this project copies what the newest batch needs and, for a like-for-like
comparison, also the whole directory. The server itself counts requests and bytes, in the same way for all, and only
while the clock runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.report import write_report
from bench.snapshots.generated import GeneratedCheckpoint
from bench.snapshots.measure import (
    OPERATIONS,
    as_json,
    file_sizes,
    files_to_go_on_from,
    from_json,
    measured,
    run_rounds,
)
from bench.snapshots.real import RealCheckpoint, built
from bench.snapshots.table import comparison, goals, medians, print_table, quickest, rss_goal
from bench.snapshots.ways import OURS, ClosedSet, CommandLine, Way, install
from harness.places import ROOT
from harness.s3_server import S3Server, s3_server

HOME = ROOT / "build" / "bench-snapshots"
_CHANGED_BATCHES = 16
_LARGEST_NEEDS = 25e9


class Bench:
    """One server, one set of ways to copy, and the figures so far."""

    def __init__(self, server: S3Server, peers: list[type[Way]], rounds: int) -> None:
        self._server = server
        self._peers = peers
        self._rounds = rounds
        self.figures: dict[str, Any] = {"checkpoints": {}}

    def generated(self, name: str, *, partitions: int, kept: int) -> None:
        """Measure a generated checkpoint with every way."""
        with _Directory("generated") as root:
            print(f"{name}: writing {partitions} partitions x {kept} batches", flush=True)
            checkpoint = GeneratedCheckpoint(root, partitions=partitions, kept=kept)
            self._compare(name, root, lambda: None, lambda: checkpoint.advance(_CHANGED_BATCHES))

    def real(self, name: str) -> None:
        """Measure a checkpoint that Spark wrote, with every way."""
        with _Directory("real-now") as root:
            checkpoint = RealCheckpoint(root, built(HOME / "real"))
            self._compare(name, root, checkpoint.bring_back, checkpoint.advance)

    def largest(self, name: str, *, partitions: int, kept: int) -> None:
        """Measure a large checkpoint once with our own ways only, for the memory that they use."""
        with _Directory("largest") as root:
            if shutil.disk_usage(root.parent).free < _LARGEST_NEEDS:
                print(f"{name}: left out: the disk has too little room")
                return
            print(f"{name}: writing {partitions} partitions x {kept} batches", flush=True)
            checkpoint = GeneratedCheckpoint(root, partitions=partitions, kept=kept)
            ways: list[type[Way]] = list(OURS)
            self._measure(name, root, ways, 1, lambda: None, lambda: checkpoint.advance(_CHANGED_BATCHES))

    def floor(self) -> None:
        """Measure what a process costs before it does its own work."""
        bucket = "floor"
        scratch = HOME / "scratch" / bucket
        scratch.mkdir(parents=True)
        self._server.make_bucket(bucket)
        environment = ClosedSet(self._server, bucket, scratch).environment
        commands = {
            "python that does nothing": [sys.executable, "-c", "pass"],
            "a bare boto3 client that stores one object": [
                sys.executable,
                "-m",
                "bench.snapshots.ours",
                "floor",
                bucket,
            ],
            "the command line's help": [sys.executable, "-m", "streamkeeper.cli.main", "snapshot", "--help"],
        }
        self.figures["floor"] = {}
        for what, command in commands.items():
            self.figures["floor"][what] = {"start": [measured(self._server, command, environment) for _ in range(5)]}
        self.figures["floor"] = as_json(self.figures["floor"])
        shutil.rmtree(scratch)

    def _compare(self, name: str, root: Path, begin: Callable[[], None], change: Callable[[], None]) -> None:
        self._measure(name, root, [*OURS, *self._peers], self._rounds, begin, change)

    def _measure(
        self,
        name: str,
        root: Path,
        ways: list[type[Way]],
        rounds: int,
        begin: Callable[[], None],
        change: Callable[[], None],
    ) -> None:
        begin()
        size, noted, scratch = _size(root), _Noted(root, change), HOME / "scratch" / root.name
        samples = run_rounds(self._server, root, ways, rounds=rounds, scratch=scratch, begin=begin, change=noted)
        self.figures["checkpoints"][name] = {**size, **noted.told, "samples": as_json(samples)}


class _Directory:
    """A path for a checkpoint's directory, which does not exist yet and is deleted at the end."""

    def __init__(self, name: str) -> None:
        self._root = HOME / name

    def __enter__(self) -> Path:
        shutil.rmtree(self._root, ignore_errors=True)
        return self._root

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._root, ignore_errors=True)


class _Noted:
    """A change that records, the first time, how many files it wrote or replaced and how many it removed."""

    def __init__(self, root: Path, change: Callable[[], None]) -> None:
        self._root = root
        self._change = change
        self.told: dict[str, int] = {}

    def __call__(self) -> None:
        before = _stamps(self._root)
        self._change()
        if not self.told:
            after = _stamps(self._root)
            written = sum(1 for path, stamp in after.items() if before.get(path) != stamp)
            self.told = {"files_written_by_change": written, "files_removed_by_change": len(before.keys() - after)}


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.snapshots", description="Snapshots against other people's tools.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the batches, to try the bench out")
    parser.add_argument("--only", choices=("generated", "real", "largest"), action="append")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results", help="folder of the report")
    parser.add_argument("--again", type=Path, metavar="FILE", help="measure nothing: a report's samples, told anew")
    chosen = parser.parse_args()
    if chosen.again:
        figures = json.loads(chosen.again.read_text())
        tell(figures)
        chosen.again.write_text(json.dumps(figures, indent=1) + "\n")
        return 0
    parts = chosen.only or ("generated", "real", "largest")
    kept = int(500 * chosen.scale)
    peers, versions, missing = install()
    for tool, why in missing.items():
        print(f"{tool}: {why}")
    if "real" in parts:
        built(HOME / "real")
    shutil.rmtree(HOME / "scratch", ignore_errors=True)
    with s3_server(HOME / "server") as server:
        bench = Bench(server, peers, chosen.rounds)
        bench.floor()
        if "generated" in parts:
            bench.generated("generated", partitions=20, kept=kept)
        if "real" in parts:
            bench.real("made by Spark, RocksDB with changelogs")
        if "largest" in parts:
            bench.largest("largest", partitions=90, kept=kept)
    head = {"rounds": chosen.rounds, "operations": OPERATIONS, "tools": versions, "not measured": missing}
    figures = {**head, **bench.figures}
    tell(figures)
    print(f"written to {write_report('snapshots', figures, into=chosen.out)}")
    return 0


def tell(figures: dict[str, Any]) -> None:
    """Print a summary of a report's samples, and add it to the report."""
    for what, of_floor in medians(from_json(figures["floor"])).items():
        own = of_floor["start"]
        print(f"floor: {what}: {own['wall_s']:.2f} s, CPU {own['cpu_s']:.2f} s, {own['rss_mb']:.0f} MiB")
    figures["goals"] = {}
    ours = [way.name for way in OURS]
    for name, checkpoint in figures["checkpoints"].items():
        samples = from_json(checkpoint["samples"])
        found, least = medians(samples), quickest(samples)
        checkpoint["medians"] = found
        peers = [way for way in samples if way not in ours]
        if peers:
            checkpoint["compared"] = compared = comparison(found, peers)
            checkpoint["compared_quickest"] = quiet = comparison(least, peers)
            print_table(f"{name}: {_said(checkpoint)}; medians", found, compared)
            print_table(f"{name}; the least of each column over the rounds", least, quiet)
            for way in (ClosedSet.name, CommandLine.name):
                figures["goals"][f"{name}, {way}"] = goals(compared, quiet, way)
        else:
            print_table(f"{name}: {_said(checkpoint)}", found)
            figures["goals"][name] = [rss_goal(found, way) for way in ours]
    for where, goal in ((where, goal) for where, found in figures["goals"].items() for goal in found):
        word = "reached" if goal["reached"] else "MISSED"
        print(f"{word}: {where}: {goal['goal']}: {goal['is']:g} (wanted {goal['wanted']:g})")


def _size(root: Path) -> dict[str, int]:
    sizes = file_sizes(root)
    needed = files_to_go_on_from(root)
    return {
        "files": len(sizes),
        "bytes": sum(sizes.values()),
        "closed_set_files": len(needed),
        "closed_set_bytes": sum(sizes[path] for path in needed),
    }


def _said(size: dict[str, int]) -> str:
    return (
        f"{size['files']:,} files, {size['bytes'] / 1e6:,.1f} MB;"
        f" its newest batch needs {size['closed_set_files']:,} files, {size['closed_set_bytes'] / 1e6:,.2f} MB"
    )


def _stamps(root: Path) -> dict[str, tuple[int, int]]:
    return {path: (found.st_ino, found.st_mtime_ns) for path in file_sizes(root) if (found := os.stat(root / path))}


if __name__ == "__main__":
    raise SystemExit(main())
