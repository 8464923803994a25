"""``python -m bench.page``: measure how soon the fleet's page answers for 1,000 jobs behind Airflow's own API server.

The index is like one that a pass of the watch would write: two queries per job with recorded versions and snapshots,
every tenth job with an incident, every twentieth with an operation under way. Prints the median and the 90th percentile
of the time to the first byte and to the whole answer, for a session's first view and for later ones; the same figures
of the application alone, without Airflow; the store requests per view; and, where chromium is installed, the time until
a browser has drawn the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from bench.report import write_report
from harness.airflow_process import airflow_environment, choose_ports, without_airflow
from harness.places import ROOT
from harness.rest import AirflowApi
from harness.waiting import wait_for
from streamkeeper.errors import TemporaryError
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.watch.fleet_index import FleetIndex, JobMemory, JobRow, QueryRow, SnapshotFacts
from streamkeeper.model.watch.health import Symptom, Urgency
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.model.watch.watched_facts import JobFacts, OperationFacts
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.app import make_app
from streamkeeper.pages.viewer import Viewer
from streamkeeper.registry.fleet import write_index
from streamkeeper.stores.counting import CountingStore

QUERIES = ("first", "second")
VIEWS = {
    "fleet": "",
    "by_lag": "?sort=lag",
    "searched": "?search=0042&health=&standing=&under_way=&owner=",
    "refreshed": "?part=jobs",
}
_START_S = 180.0


def main() -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="bench.page", description="The first byte of the fleet's page.")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--views", type=int, default=40, help="of each kind")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    root = ROOT / "build/bench/page-site"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    figures = _figures(root, chosen.jobs, chosen.views)
    shutil.rmtree(root, ignore_errors=True)
    file = write_report("page", figures, into=chosen.out)
    print(json.dumps(figures, indent=1))
    print(f"written to {file}")
    return 0


def _figures(root: Path, jobs: int, views: int) -> dict[str, Any]:
    installation = Installation.from_environment({"STREAMKEEPER_HOME": str(root / "home")})
    now = time.time()
    write_index(
        installation.store,
        FleetIndex(
            number=7,
            started=now,
            installation=installation.id,
            rows=tuple(_row(number, now) for number in range(jobs)),
        ),
    )
    return {
        # Seconds mean little without it: others' work on the machine counts in full.
        "load_before": round(os.getloadavg()[0], 1),
        "jobs": jobs,
        "index_bytes": len(installation.store.read("fleet/index.json")),
        "alone": asyncio.run(_alone(installation, views)),
        "behind_airflow": _behind_airflow(root, views),
    }


def _row(number: int, now: float) -> JobRow:
    job, wrong, busy = f"job_{number:05d}", number % 10 == 0, number % 20 == 0
    cause = "query first has completed no trigger for 14 min, and its batches take 3 s: its source does not answer"
    symptom = Symptom(
        rule="stalled", severity=Urgency.PAGE, job=job, query="first", cause=cause,
        action=f"look at the log: streamkeeper logs {job}", heading="A job stands still",
    )  # fmt: skip
    operation = OperationFacts(
        operation=f"manual-{number}", kind="deploy", step="approve", began_at=now - 600, waits_for_person=True
    )
    facts = JobFacts(
        number=120, wanted=True, stopped="", serving_release="r0003", serving_instance="op-candidate",
        desired_release="r0003", last_failure="", operation=operation if busy else None, operations=9,
        owner=f"airflow:person_{number % 12}", secrets=("airflow",),
        versions={
            query: CheckpointVersion(
                query=query, version="v0002", release="r0003", origin="fresh", state_format="rocksdb+changelog/v2",
                root="/data/checkpoints", query_id="0f0f0f0f-0000-4000-8000-000000000001", claimed_by="op-candidate",
            )
            for query in QUERIES
        },
    )  # fmt: skip
    snapshot = SnapshotFacts(
        looked_at=now, due_at=now + 600, number=40, version="v0002", batch=9000, taken_at=now - 3600,
        query_id="0f0f0f0f-0000-4000-8000-000000000001", verified=38, verified_at=now - 7200,
        checkpoint=f"/data/checkpoints/{job}/first/v0002",
    )  # fmt: skip
    query = QueryRow(
        lag_s=float(number % 90), lag_records=number * 7, committed_at=now - number % 300, batch_s=1.5, trigger_s=5.0,
        rows_per_s=float(number), snapshots_known=True, snapshot_at=now - 3600, verified_at=now - 7200,
    )  # fmt: skip
    return JobRow(
        job=job, standing=JobStatus.SERVING, release="r0003", instance="op-candidate", life=Life.ALIVE,
        why="its process lives", operation=operation.operation if busy else "", under_way=facts.operation,
        worst=Urgency.PAGE if wrong else None, symptoms=(symptom,) if wrong else (), seen_at=now,
        queries=dict.fromkeys(QUERIES, query), versions=dict.fromkeys(QUERIES, "v0002"),
        committed=dict.fromkeys(QUERIES, 9000),
        memory=JobMemory(
            facts=facts, beat=("op-candidate", 1, number), beat_at=now, snapshots=dict.fromkeys(QUERIES, snapshot),
            committed_at=dict.fromkeys(QUERIES, now - 10),
        ),
    )  # fmt: skip


async def _alone(installation: Installation, views: int) -> dict[str, Any]:
    """Measure the application without a server: the time to read and render the page, and the store requests per
    view.
    """
    store = CountingStore(installation.store)
    app = make_app(
        lambda: replace(installation, store=store), lambda: Viewer(name="bench", may=lambda right, dag_id: True)
    )
    found: dict[str, Any] = {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
        for name, query in VIEWS.items():
            spent, before = [], store.requests
            for _ in range(views):
                began = time.perf_counter()
                answer = await client.get(f"/{query}")
                spent.append(time.perf_counter() - began)
                assert answer.status_code == 200, answer.text
            found[name] = {**_told(spent, "whole"), "bytes": len(answer.content)}
            found[name]["store_requests"] = (store.requests - before) / views
    return found


def _behind_airflow(root: Path, views: int) -> dict[str, Any]:
    """Measure the page through Airflow's API server, signed in as Airflow's users are."""
    port, *log_ports = choose_ports(0)
    url = f"http://127.0.0.1:{port}"
    home = root / "airflow"
    home.mkdir()
    settings = airflow_environment(root=ROOT, home=home, url=url, log_ports=(log_ports[0], log_ports[1]))
    environ = {**without_airflow(os.environ), **settings, "STREAMKEEPER_HOME": str(root / "home")}
    environ["PYTHONPATH"] = str(ROOT / "plugins")
    program = [sys.executable, "-m", "airflow"]
    subprocess.run([*program, "db", "migrate"], env=environ, check=True, capture_output=True)
    with open(home / "api-server.log", "wb") as log:
        server = subprocess.Popen([*program, "api-server", "--workers", "1"], env=environ, stdout=log, stderr=log)
    try:
        api = AirflowApi(url)
        wait_for("Airflow's API server", lambda: _answers(api), timeout_s=_START_S)
        token = httpx.get(f"{url}/auth/token").json()["access_token"]
        found = {name: _asked(f"{url}/streamkeeper/{query}", token, views) for name, query in VIEWS.items()}
        return {**found, "drawn_s": _drawn(f"{url}/streamkeeper/", token, url)}
    finally:
        server.terminate()
        server.wait()


def _answers(api: AirflowApi) -> bool:
    try:
        return bool(api.health())
    except TemporaryError:
        return False


def _asked(url: str, token: str, views: int) -> dict[str, Any]:
    first, whole = [], []
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for _ in range(views + 1):
            began = time.perf_counter()
            with client.stream("GET", url) as answer:
                chunks = answer.iter_bytes()
                next(chunks)
                first.append(time.perf_counter() - began)
                for _ in chunks:
                    pass
            whole.append(time.perf_counter() - began)
            assert answer.status_code == 200
    # The first one imports what stands behind the page.
    return {"very_first_ms": round(first[0] * 1000), **_told(first[1:], "first_byte"), **_told(whole[1:], "whole")}


def _told(seconds: list[float], what: str) -> dict[str, float]:
    in_order = sorted(seconds)
    return {
        f"{what}_ms": round(statistics.median(in_order) * 1000, 1),
        f"{what}_p90_ms": round(in_order[int(len(in_order) * 0.9)] * 1000, 1),
    }


def _drawn(url: str, token: str, origin: str) -> float | None:
    """Return the median seconds from the request until the page and everything that it loads has arrived; None without
    a browser.
    """
    program = shutil.which("chromium")
    if program is None:
        return None
    from playwright.sync_api import sync_playwright

    loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
    spent: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": "_token", "value": token, "url": origin}])
        page = context.new_page()
        for _ in range(8):
            page.goto(url, wait_until="load")
            spent.append(page.evaluate(loaded))
        browser.close()
    return round(statistics.median(spent[1:]), 3)


if __name__ == "__main__":
    raise SystemExit(main())
