"""A person stops and starts a real driver: nothing runs in between, and no data is lost."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from harness.bed import Bed, fresh_bed
from harness.ledger import expected_totals
from harness.outputs import read_totals
from harness.places import ROOT
from harness.producer import SALES, write_whole
from harness.waiting import wait_for
from streamkeeper.cli.main import app
from streamkeeper.model.records.job_state import JobState
from tests.pages.asking import get, make_viewed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
JOB = "sales_totals"


class Shop:
    """A job with a table, and the sales files that it reads."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.warehouse = bed.root / "warehouse.db"
        self.sold = 0

    def sell(self) -> None:
        """Write one more sales file."""
        rows = [(f"e{self.sold}-{row}", f"c{row % 3}", row + self.sold) for row in range(10)]
        write_whole(self.bed.input / SALES, f"{self.sold:06d}.csv", rows)
        self.sold += 1

    def deploy(self, **params: object) -> None:
        """Deploy the job's file with these params."""
        given = {
            "input": str(self.bed.input / SALES),
            "warehouse": f"sqlite:///{self.warehouse}",
            "trigger": "200 milliseconds",
            **params,
        }
        conf = ["--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=1"]
        batches = ["--probation-batches", "0"]
        self.says(0, "deploy", JOB, "--params", json.dumps(given), *conf, *batches, "--reason", "first")

    def says(self, code: int, *words: str) -> str:
        """Run a command, assert its exit code, and return what it prints."""
        done = CliRunner().invoke(app, list(words), env={**self.bed.environment, "COLUMNS": "300"})
        assert done.exit_code == code, done.output
        return done.output

    def is_exact(self) -> bool:
        """Return whether the table equals the totals of the sales files."""
        return self.warehouse.exists() and read_totals(self.warehouse) == expected_totals(self.bed.input / SALES)

    @property
    def state(self) -> JobState:
        return self.bed.installation.journal(JOB, "test").state()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A running job with a complete table; each test but the last leaves it in this state."""
    with fresh_bed(tmp_path_factory.mktemp("shop") / "site", [ROOT / "jobs" / f"{JOB}.py"]) as bed:
        shop = Shop(bed)
        shop.sell()
        shop.deploy()
        wait_for("the totals", shop.is_exact, timeout_s=60)
        yield shop


def assert_its_page_tells_it(shop: Shop) -> None:
    """Assert that the job's page shows the running driver's status, history, plan, offsets and log, and the reason of
    the last stop.
    """
    page, driver = make_viewed(shop.bed.installation), shop.state.serving_instance
    text = html.unescape(get(page, f"/jobs/{JOB}?open=log").text)
    told = (
        '<span class="badge good">running</span>',
        f"{driver}: alive",
        "maintenance",
        "r0001 is the current release",
        "starts in v0001",
        "stateful operator 0: aggregate",
        '{"logOffset":',
        f"{shop.bed.root}/",
        f"job={JOB} instance={driver}",
    )
    assert not [each for each in told if each not in text]
    told_by = get(page, f"/jobs/{JOB}/history.json").json()
    assert (told_by["instance"], [each["query"] for each in told_by["queries"]]) == (driver, ["totals"])


def test_a_stopped_job_stays_stopped_and_a_start_continues_its_version(shop: Shop) -> None:
    """A stop drains the driver at a batch boundary without killing it; new input waits, and a start continues in the
    same checkpoint version with an exact table.
    """
    assert "driver has pid" in shop.says(0, "logs", JOB, "--lines", "500")
    first = shop.state.serving_instance

    told = shop.says(0, "stop", JOB, "--reason", "maintenance")
    assert f"job {JOB} is stopped: r0001 no longer runs" in told
    assert list(shop.bed.processes()) == []
    assert shop.state.instances[first].exit == "drained"
    assert "nothing to do" in shop.says(0, "stop", JOB, "--reason", "again")
    assert "stopped" in shop.says(0, "jobs", "--now")
    assert "maintenance" in shop.says(0, "status", JOB)

    before = read_totals(shop.warehouse)
    shop.sell()
    told = shop.says(0, "start", JOB, "--reason", "all done")
    assert "r0001 is the current release" in told
    wait_for("the totals after the start", shop.is_exact, timeout_s=60)
    assert read_totals(shop.warehouse) != before
    state = shop.state
    assert state.wanted
    assert [each.version for each in state.versions["totals"]] == ["v0001"]
    assert state.epochs["totals"].instance == state.serving_instance != first
    assert f"job {JOB} is running already" in shop.says(0, "start", JOB)
    assert_its_page_tells_it(shop)

    follow = shop.says(0, "logs", JOB, "--follow", "--instance", first, "--lines", "1")
    assert "the instance has ended: drained" in follow


@pytest.mark.storage
def test_a_finished_available_now_job_is_started_to_read_new_input(shop: Shop) -> None:
    """An availableNow job finishes by itself, and a start reads the input that has arrived since."""
    shop.sell()
    shop.deploy(trigger="availableNow")
    wait_for("the totals", shop.is_exact, timeout_s=60)
    wait_for("its end", lambda: "finished" in shop.says(0, "jobs", "--now"), timeout_s=60, poll_s=1.0)
    shop.sell()
    shop.says(0, "start", JOB, "--reason", "tonight's")
    wait_for("the totals after the start", shop.is_exact, timeout_s=60)
