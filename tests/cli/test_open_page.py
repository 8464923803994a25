"""Tests of ``streamkeeper open``: where Airflow's address is read from, and which jobs have a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamkeeper.cli.main import app
from streamkeeper.cli.open_page import VARIABLE, read_base_url
from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.journal_records import JobForgotten
from streamkeeper.operations.jobs.installation import Installation

FLEET = "/plugin/streamkeeper/streamkeeper/"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which no address of Airflow is configured."""
    for name in (VARIABLE, "AIRFLOW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "home"))
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["open", *words])
    return done.exit_code, done.output.strip()


def test_the_airflow_address_is_read_from_option_then_variable_then_file(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's address is read from the option, then the variable, then the configuration file, which is parsed
    without Airflow.
    """
    (nowhere / "airflow").mkdir()
    (nowhere / "airflow" / "airflow.cfg").write_text("[core]\nx = %(y)s\n[api]\nbase_url = http://file.example:8080\n")
    assert run() == (0, "http://file.example:8080" + FLEET)
    (nowhere / "other.cfg").write_text("[api]\nbase_url = http://other.example\n")
    monkeypatch.setenv("AIRFLOW_CONFIG", str(nowhere / "other.cfg"))
    assert run() == (0, "http://other.example" + FLEET)
    monkeypatch.setenv(VARIABLE, "https://variable.example")
    assert run() == (0, "https://variable.example" + FLEET)
    assert run("--airflow", "https://given.example") == (0, "https://given.example" + FLEET)


def test_a_missing_or_invalid_address_is_refused_with_its_configuration_options(nowhere: Path) -> None:
    """Without an address the error lists the ways to configure one; an address that a browser cannot open and an
    unreadable configuration file are refused.
    """
    code, told = run()
    assert code == 2
    assert "Airflow's address is not configured here" in told
    assert VARIABLE in told
    assert "is not an address" in run("--airflow", "file:///etc/passwd")[1]
    (nowhere / "bad.cfg").write_text("no section")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_base_url({"AIRFLOW_CONFIG": str(nowhere / "bad.cfg")})


def test_a_page_opens_only_for_a_recorded_job(nowhere: Path) -> None:
    """A known job has a page, also when it was forgotten; a mistyped name is refused with the list of known jobs."""
    site = Installation.from_environment({"STREAMKEEPER_HOME": str(nowhere / "home")})
    site.journal("orders", "test").append(lambda _: JobForgotten(requested_by="ada", reason="a test"))
    assert run("orders", "--airflow", "http://a.example") == (0, f"http://a.example{FLEET}jobs/orders")
    code, told = run("odrers", "--airflow", "http://a.example")
    assert code == 2
    assert "job odrers is not known" in told
    assert "known jobs: orders" in told
