"""A real driver that is killed with all its processes, and the watch that lets it serve again."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamkeeper.cli.main import app
from streamkeeper.model.health import Severity
from streamkeeper.model.incident import IncidentRaised, WatchActed
from streamkeeper.model.journal import Outcome
from streamkeeper.model.liveness import Life
from streamkeeper.operations.fleet_look import OWN
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.watching import Watch, run_pass
from streamkeeper.registry.incidents import IncidentLog
from tests.cli.test_with_spark import JOB

pytestmark = [pytest.mark.spark, pytest.mark.timeout(420)]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """An installation in which the job ``orders`` serves and has written what there was."""
    for folder in ("jobs", "input"):
        (tmp_path / folder).mkdir()
    (tmp_path / "jobs" / "orders.py").write_text(JOB)
    write(tmp_path, "1", "north,3\nsouth,4\nnorth,5\n")
    environ = {"STREAMKEEPER_HOME": str(tmp_path / "home"), "STREAMKEEPER_JOBS": str(tmp_path / "jobs")}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    params = json.dumps({"input": str(tmp_path / "input"), "warehouse": f"sqlite:///{tmp_path}/warehouse.db"})
    done = CliRunner().invoke(
        app, ["deploy", "orders", "--params", params, "--reason", "first", "--probation-batches", "0"]
    )
    assert done.exit_code == 0, done.output
    found = Installation.from_environment(environ)
    yield found
    for instance in found.journal("orders", "test").state().instances:
        found.runner.kill("orders", instance)


def write(root: Path, name: str, rows: str) -> None:
    """One more input file, whole at once."""
    (root / f".{name}").write_text(rows)
    (root / f".{name}").rename(root / "input" / f"{name}.csv")


def totals(root: Path) -> dict[str, int]:
    """What the output holds."""
    with sqlite3.connect(f"file:{root}/warehouse.db?mode=ro", uri=True) as database:
        return dict(database.execute("select shop, total from totals"))


def test_what_was_killed_serves_again_once_and_loses_nothing(site: Installation, tmp_path: Path) -> None:
    """SIGKILL to supervisor, driver and JVM; two watches see it at once: one incident, one start, output complete."""
    before = site.journal("orders", "test").state()
    run_pass(Watch(site=site))
    site.runner.kill("orders", before.serving_instance)
    write(tmp_path, "2", "south,6\nwest,1\n")
    deadline = time.monotonic() + 240
    while site.runner.observe("orders", before.serving_instance).life is not Life.DEAD:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: run_pass(Watch(site=site, act_s=1.0)), range(2)))
    while site.journal("orders", "test").state().open_operation is not None:
        assert time.monotonic() < deadline
        run_pass(Watch(site=site, act_s=5.0))
    state = site.journal("orders", "test").state()
    started = [each for each in state.operations.values() if each.operation.startswith(OWN)]
    assert [each.outcome for each in started] == [Outcome.SUCCEEDED], started[0].sentence
    assert state.serving_instance != before.serving_instance
    assert state.serving_release == before.serving_release
    while totals(tmp_path) != {"north": 8, "south": 10, "west": 1}:
        assert time.monotonic() < deadline, totals(tmp_path)
        time.sleep(0.2)
    run_pass(Watch(site=site))
    log = IncidentLog(site.store, "orders")
    entries = [each.record for each in log.entries()]
    raised = [each.symptom for each in entries if isinstance(each, IncidentRaised)]
    assert [each.rule for each in raised if each.severity is Severity.PAGE] == ["driver-dead"]
    assert any(isinstance(each, WatchActed) and "restarts r0001 as" in each.sentence for each in entries)
    assert "driver-dead" not in {each.symptom.rule for each in log.state().open.values()}
