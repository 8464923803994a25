"""``python -m bench.watch``: measure what a pass of the watch and ``jobs`` cost for a whole fleet, on a store of its
own.

Creates ``--jobs`` jobs of two queries each from records (journal, status, checkpoint files, one snapshot each), and for
each a living process that carries the mark of its driver. Prints the seconds and requests of the first pass and of
later ones, the seconds of ``jobs`` and ``jobs --now``, the figures of the pass after all those processes were killed,
and the same for a tenth of the jobs, which shows whether the cost is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.report import write_report
from harness.places import ROOT
from harness.s3_server import FIRST_BUCKET, s3_server
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.release import Environment, Release, ReleaseContent
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, ProcessRecord, QueryStatus
from streamkeeper.model.protocol.signals import QuerySignals
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    Entry,
    EpochClaimed,
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
    StartOffsetsKnown,
    StepDone,
)
from streamkeeper.model.records.snapshot import Snapshot, series_key
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.runners.machine import this_machine
from streamkeeper.runners.process_tree import read_process
from streamkeeper.snapshots.sealing import seal
from streamkeeper.stores.counting import CountingStore

QUERIES = ("first", "second")
QUERY_ID = "0f0f0f0f-0000-4000-8000-{:012d}"
BATCHES = 100
STEPS = 56
"""The number of journal entries that a deploy and some later operations leave."""


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.watch", description="A pass of the watch over a whole fleet.")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument(
        "--s3", action="store_true", help="on a real S3 server of its own; a local directory without it"
    )
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    parser.add_argument("--name", default="", help="of the report")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        figures = _figures(chosen.jobs, _s3_store(stack) if chosen.s3 else "")
    file = write_report(chosen.name or ("watch-s3" if chosen.s3 else "watch"), figures, into=chosen.out)
    print(json.dumps(figures, indent=1))
    print(f"written to {file}")
    return 0


def _s3_store(stack: ExitStack) -> str:
    """Return the URL of an empty store on a server that is stopped with ``stack``; its variables are set in the
    environment.
    """
    home = Path(stack.enter_context(TemporaryDirectory(prefix="streamkeeper-s3-")))
    running = stack.enter_context(s3_server(home, volume_mb=64, volumes=40))
    os.environ.update(running.environment)
    return f"s3://{FIRST_BUCKET}/fleet"


def _figures(jobs: int, store: str) -> dict[str, Any]:
    return {
        # Seconds mean little without it: others' work on the machine counts in full.
        "load_before": round(os.getloadavg()[0], 1),
        "jobs": jobs,
        "queries": jobs * len(QUERIES),
        "a_tenth": _measure(max(1, jobs // 10), f"{store}/tenth" if store else ""),
        "all": _measure(jobs, f"{store}/all" if store else ""),
    }


def _measure(count: int, url: str) -> dict[str, float]:
    root = ROOT / "build/bench/watch-site"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    environ = _environment(root, url)
    made = time.monotonic()
    # The store is opened once as a person's command does it, which makes it an installation.
    installation = Installation.from_environment(environ)
    for number in range(count):
        _make_job(installation, root, f"job_{number:05d}")
    figures: dict[str, float] = {"made_s": round(time.monotonic() - made, 1)}
    living = [_a_driver(installation, f"job_{number:05d}") for number in range(count)]
    try:
        for name in ("first_pass", "second_pass", "third_pass"):
            figures |= _pass(installation, name, count)
        for name, words in (("jobs", []), ("jobs_now", ["--now"])):
            figures[f"{name}_s"] = _command(environ, "jobs", "--json", *words)
    finally:
        for each in living:
            each.kill()
        for each in living:
            each.wait()
    figures |= _pass(installation, "all_dead_pass", count)
    shutil.rmtree(root, ignore_errors=True)
    return figures


def _pass(installation: Installation, name: str, count: int) -> dict[str, float]:
    """Return the seconds and requests of one pass, including the requests that the runner makes to determine whether a
    driver lives.
    """
    store = CountingStore(installation.store)
    runner = LocalProcessRunner(store, installation.settings, installation=installation.record)
    began = time.monotonic()
    report = run_pass(WatchPass(installation=replace(installation, store=store, runner=runner), acts=False))
    seconds = time.monotonic() - began
    assert len(report.index.rows) == count
    assert not any(row.unlooked for row in report.index.rows), report.index.rows[0].unlooked
    return {f"{name}_s": round(seconds, 2), f"{name}_requests_per_job": round(store.requests / count, 2)}


def _command(environ: dict[str, str], *words: str) -> float:
    began = time.monotonic()
    program = [sys.executable, "-m", "streamkeeper.cli.main", *words]
    done = subprocess.run(program, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return round(time.monotonic() - began, 2)


def _environment(root: Path, url: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("STREAMKEEPER_")}
    here = {"PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}", "STREAMKEEPER_HOME": str(root / "home")}
    return {**kept, **here, **({"STREAMKEEPER_STORE": url} if url else {})}


def _a_driver(installation: Installation, job: str) -> subprocess.Popen[bytes]:
    """Start a process that carries the mark of a job's driver, and write its record."""
    mark = {"STREAMKEEPER_INSTANCE": f"{job}/op-candidate", "STREAMKEEPER_INSTALLATION": installation.id}
    process = subprocess.Popen(["/bin/sleep", "3600"], env=mark, start_new_session=True)
    found, here = read_process(process.pid), this_machine()
    assert found is not None
    record = ProcessRecord(
        instance="op-candidate", generation=1, machine=here.text, host=here.host, pid=process.pid,
        started=found.started, installation=installation.id,
    )  # fmt: skip
    _put(installation, f"control/{job}/op-candidate/process-0001.json", to_json(record))
    return process


def _put(installation: Installation, key: str, value: bytes) -> None:
    """Write to the store; a local store is written without syncing the disk, because creating the fleet is not
    measured.
    """
    if not installation.store.url.startswith("file:"):
        installation.store.replace(key, value)
        return
    path = Path(installation.store.url.removeprefix("file://")) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value)


def _make_job(installation: Installation, root: Path, job: str) -> None:
    for number, record in enumerate(_records(installation, root, job), start=1):
        entry = Entry(number=number, at="2026-01-01T00:00:00Z", by="bench", record=record)
        _put(installation, entry_key(job, number), to_json(entry))
    queries = {
        query: QueryStatus(
            query=query, version="v0001", epoch=1, committed=BATCHES, signals=QuerySignals(batch=BATCHES)
        )
        for query in QUERIES
    }
    status = DriverStatus(
        instance="op-candidate", release="r0001", generation=1, state=DriverState.SERVING, beat=1, at="",
        queries=queries,
    )  # fmt: skip
    _put(installation, f"control/{job}/op-candidate/status.json", to_json(status))
    for query in QUERIES:
        _make_checkpoint(installation, root / "home" / "checkpoints" / job / query / "v0001", job, query)


def _records(installation: Installation, root: Path, job: str) -> list[Record]:
    environment = Environment(python="3.11", spark="4.2.0", packages_sha256="p", jars_sha256="j", digest="d")
    content = ReleaseContent(
        bundle="b" * 64, bundle_bytes=1, entry=f"{job}.py", params={}, conf={}, environment=environment,
        state_format="rocksdb+changelog/v2",
    )  # fmt: skip
    checkpoints = str(root / "home" / "checkpoints")
    records: list[Record] = [
        ReleaseRegistered(release=Release(job=job, number=1, content=content)),
        ReleaseDescribed(release="r0001", manifests=dict.fromkeys(QUERIES, "m" * 64)),
        OperationStarted(operation="op", request=DeployRequest(job=job), steps=()),
        InstancePlanned(operation="op", instance="op-candidate", release="r0001", role=Role.CANDIDATE),
    ]
    for query in QUERIES:
        records += [
            CheckpointVersionCreated(
                query=query, version="v0001", release="r0001", origin="fresh", state_format="f", root=checkpoints,
                installation=installation.id,
            ),
        ]  # fmt: skip
    records.append(InstanceAppointed(operation="op", instance="op-candidate"))
    for query in QUERIES:
        claimed = EpochClaimed(
            query=query, output=query, epoch=1, instance="op-candidate", generation=1, version="v0001"
        )
        known = StartOffsetsKnown(query=query, version="v0001", offsets=("{}",), query_id=QUERY_ID.format(1))
        records += [claimed, known]
    records += [StepDone(operation="op", step=f"step-{number}") for number in range(STEPS - len(records) - 2)]
    return [
        *records,
        ReleasePromoted(operation="op", release="r0001", instance="op-candidate"),
        OperationFinished(operation="op", outcome=Outcome.SUCCEEDED, sentence="serves"),
    ]


def _make_checkpoint(installation: Installation, directory: Path, job: str, query: str) -> None:
    """Write the logs as Spark keeps them, with the last hundred batches, and a snapshot of the newest batch."""
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": QUERY_ID.format(1)}))
    for batch in range(BATCHES + 1):
        (directory / "offsets" / str(batch)).write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{}')
        (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    snapshot = Snapshot(
        number=1, series=f"{job}/{query}", checkpoint=directory.as_uri(), version="v0001", release="r0001",
        query_id=QUERY_ID.format(1), batch=BATCHES, pending=False, offsets={}, watermark_ms=None,
        taken_at="2026-11-22T00:00:00+00:00", stored=1, packs=(), files=(),
    )  # fmt: skip
    _put(installation, series_key(snapshot.series, "index", f"{1:010d}"), seal(snapshot, packed=True))


if __name__ == "__main__":
    raise SystemExit(main())
