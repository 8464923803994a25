"""``python -m bench.s3_requests``: count the S3 requests of a batch with Streamkeeper's driver and with Spark alone.

A real S3 server runs behind a proxy that records every request. Two queries read the same files at the same time, each
with its checkpoint in the bucket: ``event_copy``, which has no state, and ``sales_totals``, an aggregation over two
partitions of RocksDB with changelogs. ``served`` are the queries run by drivers; ``alone`` are the same queries and
writers in a bare session with Spark's own checkpoint file manager. Requests are counted over whole batches from batch
``--begin`` on, once Spark deletes as many old entries as it creates; for that it retains ten batches here instead of a
hundred and maintains its state every 20 seconds. The figures are broken down by client, kind of request and folder of
the checkpoint; ``ours`` are the requests of the driver's gate and its other checks.

The exit code is 1 when a query makes more requests than its goal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from bench.report import write_report
from harness.bed import Bed, fresh_bed
from harness.fault_proxy import FaultProxy, Heard, fault_proxy
from harness.places import ROOT
from harness.s3_server import FIRST_BUCKET, s3_server
from harness.waiting import wait_for
from streamkeeper.authoring.definition import load_job, validate_params
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.jvm.create_only import MANAGER
from streamkeeper.sinks.contract import SinkContext

GOALS = {"event_copy": 25.0, "sales_totals": 40.0}
"""The highest number of requests per batch, including ours."""
STEADY = {
    # When Spark deletes what is old is all that this changes: else it would take a hundred batches, and ten minutes.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "10s",
    "spark.sql.streaming.stateStore.maintenanceInterval": "20s",
}
_KEY = re.compile(rb"<Key>([^<]+)</Key>")
_CHECKPOINT = re.compile(r"(served|alone)/([^/]+)/[^/]+/v0001(?:/([^/]*))?")
_COMMIT = re.compile(r"/commits/(\d+)$")


class CheckpointRequest(NamedTuple):
    """One request about a checkpoint."""

    at: float
    who: str
    kind: str
    folder: str
    commits: int | None


class Ear:
    """The requests that the proxy recorded, by side and job."""

    def __init__(self) -> None:
        self.heard: dict[tuple[str, str], list[CheckpointRequest]] = {}

    def __call__(self, request: Heard) -> None:
        path, asked = urlsplit(request.path)[2], parse_qs(urlsplit(request.path).query, keep_blank_values=True)
        place, kind = unquote(path), request.method
        if "prefix" in asked:
            place, kind = asked["prefix"][0], "LIST"
        elif "delete" in asked:
            place, kind = _KEY.findall(request.body)[0].decode(), "DELETE"
        found = _CHECKPOINT.search(place)
        if found is None:
            return
        who = "ours" if "boto" in request.client.lower() else "spark"
        committed = _COMMIT.search(place) if request.method == "PUT" else None
        folder = f"{found[3] or '.'}{' checksums' if place.endswith('.crc') else ''}"
        told = CheckpointRequest(time.monotonic(), who, kind, folder, int(committed[1]) if committed else None)
        self.heard.setdefault((found[1], found[2]), []).append(told)

    def batches(self, side: str) -> int:
        """Return the number of batches that both queries have committed."""
        return min(
            max((told.commits or 0 for told in list(self.heard.get((side, job), ()))), default=0) for job in GOALS
        )

    def figures(self, side: str, job: str, begin: int) -> dict[str, Any]:
        """Return the requests per batch between the commit of batch ``begin`` and the last commit."""
        told = self.heard[(side, job)]
        at = [place for place, request in enumerate(told) if (request.commits or 0) >= begin]
        first, last = at[0], max(place for place in at if told[place].commits is not None)
        window = told[first + 1 : last + 1]
        batches = (told[last].commits or 0) - (told[first].commits or 0)

        def by_batch(counts: Counter[str]) -> dict[str, float]:
            return {name: round(count / batches, 2) for name, count in counts.most_common()}

        return {
            "batches": batches,
            "seconds": round(told[last].at - told[first].at),
            "requests": round(len(window) / batches, 1),
            "by_kind": by_batch(Counter(f"{request.who} {request.kind}" for request in window)),
            "by_folder": by_batch(Counter(f"{request.folder} {request.kind}" for request in window)),
        }


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.s3_requests", description="Requests to S3 by the batch.")
    parser.add_argument("--begin", type=int, default=30)
    parser.add_argument("--batches", type=int, default=130, help="of the served queries")
    parser.add_argument("--alone-batches", type=int, default=60)
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="s3-requests-"))
    try:
        with s3_server(root / "s3", volume_mb=64, volumes=20) as server, fault_proxy(server.endpoint) as proxy:
            os.environ |= {**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}
            figures = _measure(proxy, root / "site", chosen)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('s3-requests', figures, into=chosen.out)}")
    return 1 if any(figures["served"][job]["requests"] > goal for job, goal in GOALS.items()) else 0


def _measure(proxy: FaultProxy, root: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    proxy.heard = ear = Ear()
    sides = {"served": chosen.batches, "alone": chosen.alone_batches}
    checkpoints = {side: f"s3a://{FIRST_BUCKET}/{side}" for side in sides}
    with fresh_bed(root, [ROOT / f"jobs/{job}.py" for job in GOALS], checkpoints["served"]) as bed:
        bed.start_producer(rows=5, every_s=0.4)
        _serve(bed)
        _wait(ear, "served", chosen.begin + chosen.batches)
    served = {job: ear.figures("served", job, chosen.begin) for job in GOALS}
    print(json.dumps(served), file=sys.stderr, flush=True)
    os.environ["STREAMKEEPER_CHECKPOINTS"] = checkpoints["alone"]
    with fresh_bed(root, [ROOT / f"jobs/{job}.py" for job in GOALS]) as bed:
        bed.start_producer(rows=5, every_s=0.4)
        _stream_alone(bed, checkpoints["alone"], ear, chosen.begin + chosen.alone_batches)
    alone = {job: ear.figures("alone", job, chosen.begin) for job in GOALS}
    return {"goals": GOALS, "served": served, "alone": alone}


def _params(bed: Bed) -> dict[str, dict[str, Any]]:
    """Return the params of each job."""
    return {
        "event_copy": {"input": str(bed.input / "events"), "output": str(bed.root / "copies")},
        "sales_totals": {"input": str(bed.input / "sales"), "warehouse": f"sqlite:///{bed.root}/warehouse.db"},
    }


def _serve(bed: Bed) -> None:
    conf = [word for key, value in STEADY.items() for word in ("--conf", f"{key}={value}")]
    allowed = {"STREAMKEEPER_CONFS": ",".join(STEADY)}
    for job, params in _params(bed).items():
        run = bed.command("deploy", job, "--params", json.dumps(params), "--reason", "bench", *conf, extra=allowed)
        if run.returncode:
            raise SystemExit(run.stdout + run.stderr)


def _stream_alone(bed: Bed, checkpoints: str, ear: Ear, batches: int) -> None:
    """Run both queries in a session of this process, without Streamkeeper around them."""
    scratch = bed.root / "scratch"
    scratch.mkdir()
    session = start_session(session_conf(STEADY, scratch, "alone"), {}, scratch, [])
    try:
        spark: Any = session.spark
        spark.sparkContext._jsc.hadoopConfiguration().unset(MANAGER)
        streams = [_alone(spark, bed, checkpoints, name, params) for name, params in _params(bed).items()]
        # A job may start none while it is built.
        for stream in streams:
            stream.start()
        _wait(ear, "alone", batches)
    finally:
        session.kill()


def _alone(spark: Any, bed: Bed, checkpoints: str, name: str, params: dict[str, Any]) -> Any:
    """Return a job's query with its writer, ready to be started."""
    job = load_job(bed.jobs, f"{name}.py", name)
    (query,) = job.build(spark, validate_params(job.params, params))
    context = SinkContext(job=name, query=query.name, version="v0001", epoch=1, output_mode=query.output_mode)
    writer = query.sink.open(context)
    writer.raise_fence()
    stream = query.df.writeStream.foreachBatch(writer.write).outputMode(query.output_mode)
    stream = stream.option("checkpointLocation", f"{checkpoints}/{name}/{query.name}/v0001")
    return stream.trigger(processingTime=query.trigger)


def _wait(ear: Ear, side: str, batches: int) -> None:
    wait_for(f"{batches} batches {side}", lambda: ear.batches(side) >= batches, timeout_s=1800, poll_s=0.5)
    print(f"{side}: {batches} batches", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
