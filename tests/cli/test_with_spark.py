"""Tests of the commands that need Spark, as a person runs them: ``describe``, ``deploy --dry-run`` and ``deploy``."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.waiting import wait_for
from streamkeeper.cli.main import app
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step, label_of
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from tests.private_home import open_to_others, umask

HASTE = ("--probation-batches", "0")
pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import functions as F
from streamkeeper import Param, Query, TableSink, streaming_job

print("a job may print")

@streaming_job(name="orders", params={"input": Param(str), "warehouse": Param(str)})
def orders(spark, params):
    rows = spark.readStream.schema("shop string, amount long").csv(params["input"])
    totals = rows.groupBy("shop").agg(F.sum("amount").alias("total"))
    yield Query("totals", totals, sink=TableSink(params["warehouse"], table="totals", key=["shop"]),
                output_mode="update", trigger="1 second")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation with one job file and a first input file."""
    for folder in ("jobs", "input"):
        (tmp_path / folder).mkdir()
    (tmp_path / "jobs" / "orders.py").write_text(JOB)
    (tmp_path / "input" / "1.csv").write_text("north,3\nsouth,4\nnorth,5\n")
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STREAMKEEPER_JOBS", str(tmp_path / "jobs"))
    monkeypatch.setenv("STREAMKEEPER_SECRET_WAREHOUSE", f"sqlite:///{tmp_path}/warehouse.db?password=sesame")
    monkeypatch.setenv("COLUMNS", "300")
    with umask(0o022):
        yield tmp_path


@pytest.fixture
def site(place: Path) -> Iterator[Installation]:
    """The installation as an operation opens it; every remaining driver is killed at the end of the test."""
    found = Installation.from_environment(
        {"STREAMKEEPER_HOME": str(place / "home"), "STREAMKEEPER_JOBS": str(place / "jobs")}
    )
    yield found
    for instance in found.journal("orders", "test").state().instances:
        found.runner.kill("orders", instance)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def params(place: Path, warehouse: str = "") -> str:
    return json.dumps({"input": str(place / "input"), "warehouse": warehouse or f"sqlite:///{place}/warehouse.db"})


def totals(place: Path) -> dict[str, int]:
    with sqlite3.connect(f"file:{place}/warehouse.db?mode=ro", uri=True) as database:
        return dict(database.execute("select shop, total from totals"))


def see_a_change(place: Path) -> None:
    """Change the aggregate, add a broken job, and check what ``check --changed`` and a dry run show of them."""
    (place / "jobs" / "orders.py").write_text(JOB.replace("F.sum", "F.max"))
    (place / "jobs" / "refunds.py").write_text("from streamkeeper import streaming_job\ndef (:\n")
    checked = run("check", "--changed", "--diff", "--markdown", str(place / "comment.md"))
    assert checked.exit_code == 2
    comment = (place / "comment.md").read_text()
    assert "### Streamkeeper: 1 of 2 changed jobs could not be checked; SWITCH" in comment
    row = "| `orders` | **SWITCH** | `totals`: rebuild in v0002, beside v0001 | `totals`: reads 1 file again; "
    assert row in comment
    assert "| `refunds` | **not checked** | refunds.py:2: " in comment
    assert "`aggregate-function-changed`" in comment
    assert '-    totals = rows.groupBy("shop").agg(F.sum("amount").alias("total"))' in comment
    assert "+  state value max(source 0.amount): long" in comment
    assert comment.splitlines()[0] == "<!-- streamkeeper-check -->"
    dry = run("deploy", "orders", "--params", params(place), "--dry-run", "--diff-to", str(place / "page.html"))
    assert dry.exit_code == 0, dry.stderr
    page = (place / "page.html").read_text()
    assert "state value max(source 0.amount): long" in page
    assert "F.max(&quot;amount&quot;)" in page


def test_describe_prints_the_manifests_and_nothing_else(place: Path) -> None:
    """``describe`` prints only JSON although the job prints too, uses a secret without showing it, and registers
    nothing.
    """
    job = f"{place}/jobs/orders.py:orders"
    result = run("describe", job, "--params", params(place, "secret://env/WAREHOUSE"))
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["totals"]["output_mode"] == "update"
    assert [operator["kind"] for operator in found["totals"]["operators"]] == ["aggregate"]
    assert "sesame" not in result.stdout
    assert not (place / "home").exists()


def test_describe_names_the_line_that_is_wrong(place: Path) -> None:
    """``describe`` reports a job file that fails to import in one line with its file and line number."""
    (place / "jobs" / "orders.py").write_text(JOB + "\nimport no_such_module\n")
    result = run("describe", f"{place}/jobs/orders.py:orders", "--params", params(place))
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert f"orders.py:{JOB.count(chr(10)) + 2}: ModuleNotFoundError" in result.stderr


@pytest.mark.timeout(900)
def test_a_job_is_deployed_killed_continued_forgotten_and_revived(place: Path, site: Installation) -> None:
    """A deploy carries out the steps that its dry run printed, in that order, and the job then runs.

    The deploy is killed, and the same command continues its operation; the next deploy names only the code and keeps
    params and conf. Once stopped and forgotten, the job is deployed only with ``--revive``, and continues from its old
    checkpoint. Other users cannot read the home; the output has ordinary file modes.
    """
    given = ("--params", params(place), "--conf", "spark.sql.shuffle.partitions=3")
    dry = run("deploy", "orders", *given, "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert "verdict: r0001 is the first release: it starts in a new checkpoint version" in dry.stdout
    assert "query totals: starts in v0001\n" in dry.stdout
    assert "the same checkpoint" not in dry.stdout
    assert not (place / "home" / "store" / "registry").exists()
    assert [each for each in (place / "home").rglob("*") if "orders" in each.name or "dry-run" in each.name] == []

    operation = _deploy_with_a_kill(site, *given, "--reason", "first")
    shown = [dry.stdout.index(f" {label_of(step)} ") for step in operation.steps]
    assert shown == sorted(shown)
    # With nothing that serves there is nothing to drain, to prove dead or to snapshot: marked, and not announced.
    marked = {step.tag for step in (Step.DRAIN, Step.PROVE_DEAD, Step.SNAPSHOT)}
    assert set(operation.done) <= set(operation.steps) | marked
    wait_for("the totals", lambda: totals(place) == {"north": 8, "south": 4})
    assert json.loads(run("jobs", "--json").stdout)[0]["standing"] == "serving"
    assert "totals" in run("status", "orders").stdout
    see_a_change(place)
    _deploy_forget_and_revive(place, site)

    serving = site.journal("orders", "test").state().serving_instance
    Control(site.store, "orders", serving).send(CommandKind.DRAIN, "test-end")
    site.runner.notify("orders", serving)
    wait_for("its end", lambda: site.runner.observe("orders", serving).life is Life.DEAD)
    assert json.loads(run("jobs", "--json").stdout)[0]["standing"] == "ended"
    # Only what Spark and Python wrote themselves, inside of folders that are private.
    made_by_others = ("checkpoints", "scratch/*", "bundles/*")
    assert open_to_others(place / "home", except_below=made_by_others) == []
    assert (place / "warehouse.db").stat().st_mode & 0o777 == 0o644


def _deploy_with_a_kill(site: Installation, *given: str) -> OperationState:
    """Kill a deploy command once it has a driver, repeat the command, and return its operation."""
    words = ["deploy", "orders", *given]
    killed = subprocess.Popen([sys.executable, "-m", "streamkeeper.cli.main", *words], stdout=subprocess.DEVNULL)
    wait_for("a driver", lambda: bool(site.journal("orders", "test").state().instances))
    killed.kill()
    killed.wait()
    (operation,) = site.journal("orders", "test").state().operations
    again = run(*words)
    assert again.exit_code == 0, again.stderr
    assert f"operation {operation} is open and was started by the same command; continuing it" in again.stdout
    state = site.journal("orders", "test").state()
    assert (list(state.operations), state.serving_release) == ([operation], "r0001")
    return state.operations[operation]


def _deploy_forget_and_revive(place: Path, site: Installation) -> None:
    (place / "jobs" / "orders.py").write_text(JOB + "\nMORE = 1\n")
    kept = run("deploy", "orders", "--reason", "more of it", *HASTE)
    assert kept.exit_code == 0, kept.stderr
    told = "with the params (input, warehouse) and the conf (spark.sql.shuffle.partitions) of r0001"
    assert told in kept.stdout
    contents = [each.content for each in site.journal("orders", "test").state().releases.values()]
    assert (contents[0].params, contents[0].conf) == (contents[1].params, contents[1].conf)

    assert run("stop", "orders", "--reason", "closed").exit_code == 0
    gone = run("forget", "orders", "--reason", "closed")
    assert f"kept: checkpoint {place}/home/checkpoints/orders/totals/v0001" in gone.stdout
    refused = run("deploy", "orders", "--reason", "by chance")
    assert refused.exit_code == 2
    assert "its old checkpoint still exists: totals v0001" in refused.stderr
    (place / "input" / "2.csv").write_text("north,1\n")
    revived = run("deploy", "orders", "--revive", "--reason", "open again", *HASTE)
    assert revived.exit_code == 0, revived.stderr
    wait_for("the totals", lambda: totals(place) == {"north": 9, "south": 4})
    assert site.journal("orders", "test").state().forgotten is None
