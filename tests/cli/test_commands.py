"""Tests of the commands as a person runs them, on a real local store."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from streamkeeper.cli.main import app
from streamkeeper.model.protocol.driver_messages import CommandKind, DriverExit, DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.signals import QuerySignals, SourceSignals
from streamkeeper.model.records.journal_records import (
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    ReleasePromoted,
    Role,
    StepDone,
)
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.journal import Journal
from streamkeeper.stores.local import LocalStore
from streamkeeper.system.system_user import user_name

JOB = """
from streamkeeper import Param, streaming_job

@streaming_job(name="orders", params={"input": Param(str)})
def orders(spark, params):
    yield from ()
"""
PARAMS = '{"input": "/data"}'
DRIVER = "op-1-candidate"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation's home with one job file; nothing is created in it yet."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "orders.py").write_text(JOB)
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STREAMKEEPER_JOBS", str(tmp_path / "jobs"))
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path / "home"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def push() -> Result:
    return run(
        "release", "push", "orders", "--params", '{"input": "/data"}', "--conf", "spark.sql.shuffle.partitions=2"
    )


def record(home: Path, *records: Record) -> None:
    journal = Journal(LocalStore(home / "store"), "orders", writer="test")
    for each in records:
        journal.append(lambda _, each=each: each)


def serve(home: Path) -> Control:
    """Record in the journal a deploy that made r0001 the current release, and return the control folder of its
    driver.
    """
    request = DeployRequest(job="orders", release="r0001", reason="first", requested_by="ann")
    record(
        home,
        OperationStarted(operation="op-1", request=request, steps=("bundle", "standby")),
        StepDone(operation="op-1", step="bundle", result={"release": "r0001"}),
        InstancePlanned(operation="op-1", instance=DRIVER, release="r0001", role=Role.CANDIDATE),
        InstanceAppointed(operation="op-1", instance=DRIVER),
        ReleasePromoted(operation="op-1", release="r0001", instance=DRIVER),
        OperationFinished(operation="op-1", outcome=Outcome.SUCCEEDED, sentence="r0001 serves"),
    )
    return Control(LocalStore(home / "store"), "orders", DRIVER)


def serving_status(beat: int) -> DriverStatus:
    query = QueryStatus(query="totals", version="v0001", epoch=3, triggers=9, committed=41, rows=1234)
    return DriverStatus(
        instance=DRIVER,
        release="r0001",
        generation=1,
        state=DriverState.SERVING,
        beat=beat,
        at="2026-01-01T00:00:00Z",
        queries={"totals": query},
    )


def test_pushing_the_same_content_twice_prints_the_same_release(home: Path) -> None:
    """Pushing the same content twice prints the same release name."""
    assert [push().stdout, push().stdout] == ["r0001\n", "r0001\n"]


def test_release_list_and_show_print_params_and_conf_of_a_push(home: Path) -> None:
    """``release list`` and ``release show`` print a pushed release with its params and conf, as a table and as JSON."""
    push()
    assert "r0001" in run("release", "list", "orders").stdout
    listed = json.loads(run("release", "list", "orders", "--json").stdout)
    shown = json.loads(run("release", "show", "orders", "r0001").stdout)
    assert listed[0]["content"] == shown["content"]
    assert shown["content"]["params"] == {"input": "/data"}
    assert shown["content"]["conf"] == {"spark.sql.shuffle.partitions": "2"}
    assert shown["serving"] is False


def test_history_prints_each_journal_record_as_one_readable_line(home: Path) -> None:
    """``history`` prints every record of the journal as one readable line, and ``--limit`` keeps the newest ones."""
    push()
    serve(home)
    lines = run("history", "orders").stdout.splitlines()
    assert len(lines) == 7
    assert "r0001 registered" in lines[0]
    assert "op-1 started: deploy r0001, warm handover, by ann, reason: first" in lines[1]
    assert "op-1 succeeded: r0001 serves" in lines[-1]
    assert run("history", "orders", "--limit", "2").stdout.splitlines() == lines[-2:]


@pytest.mark.parametrize(
    ("stray", "told"),
    [
        ("registry/orders/journal/notes.txt", "not a journal entry"),
        (f"control/orders/{DRIVER}/commands/000001.json.bak", "not a command to a driver"),
        (f"control/orders/{DRIVER}/commands/old/000001.json", "not a command to a driver"),
    ],
)
def test_history_names_ignored_stray_files(home: Path, stray: str, told: str) -> None:
    """A stray file among journal entries or driver commands is ignored and named in ``history``; a genuine command is
    not named.
    """
    push()
    serve(home).send(CommandKind.DRAIN, "op-2")
    (home / "store" / stray).parent.mkdir(parents=True, exist_ok=True)
    (home / "store" / stray).write_text("a note")
    passed = [line for line in run("history", "orders").stdout.splitlines() if "ignored: " in line]
    assert passed == [f"{told}, ignored: {stray}"]


@pytest.mark.parametrize("reason", ["", "why", "x" * 1001, "x" * 2**16], ids=len)
@pytest.mark.parametrize(
    "words",
    [
        ("rollback", "orders"),
        ("stop", "orders"),
        ("forget", "orders"),
        ("approve", "orders", "op"),
        ("decline", "orders", "op"),
        ("home", "new"),
        ("home", "moved"),
    ],
    ids=" ".join,
)
def test_a_reason_of_invalid_length_is_refused_in_one_line(home: Path, words: tuple[str, ...], reason: str) -> None:
    """A reason shorter than 5 or longer than 1,000 characters is refused in one line, with exit code 2, by every
    command that requires one.
    """
    result = run(*words, "--reason", reason)
    assert result.exit_code == 2
    told = f"error: reason has {len(reason):,} characters (write 5 to 1,000 characters)\n"
    assert result.stderr == told


@pytest.mark.parametrize(
    "words",
    [
        ("deploy", "nope", "--params", PARAMS),
        ("start", "nope"),
        ("recover", "orders"),
        ("registry", "rebuild", "--dry-run"),
        ("snapshot", "pin", "orders/totals", "s0001"),
    ],
    ids=" ".join,
)
def test_an_optional_reason_is_validated_only_when_present(home: Path, words: tuple[str, ...]) -> None:
    """A command whose reason is optional refuses one that is too short, and raises no objection when the reason is left
    out.
    """
    assert run(*words, "--reason", "why").stderr == "error: reason has 3 characters (write 5 to 1,000 characters)\n"
    assert "reason has" not in run(*words).stderr


def test_control_characters_and_markup_are_printed_as_text_on_one_line(home: Path) -> None:
    """Line breaks, escape sequences and markup in an error or a recorded sentence are printed as text on one line by
    ``history``, ``status`` and ``jobs``.
    """
    push()
    wrote = "[red]a\nb\x1b[2J\u202e[/red]"
    status = replace(serving_status(beat=1), error=wrote)
    serve(home).write_status(status)
    record(home, OperationFinished(operation="op-2", outcome=Outcome.FAILED, sentence=wrote))
    told = run("history", "orders").stdout
    assert len(told.splitlines()) == 8
    assert told.endswith("op-2 failed: [red]a b\\x1b[2J\\u202e[/red]\n")
    assert "\x1b" not in run("status", "orders").stdout
    assert "b\\x1b[2J\\u202e[/red]" in run("status", "orders").stdout
    assert "error: [red]a b\\x1b[2J\\u202e[/red]" in run("jobs").stdout


def test_status_shows_the_driver_and_its_queries(home: Path) -> None:
    """``status`` shows batch, rows and beat from the driver's last status, and calls the job failed when the driver's
    process does not exist.
    """
    push()
    serve(home).write_status(serving_status(beat=17))
    text = run("status", "orders").stdout
    for word in ("r0001", DRIVER, "totals", "v0001", "41", "1234", "17", "failed"):
        assert word in text
    told = json.loads(run("status", "orders", "--json").stdout)
    assert told["standing"] == "failed"
    assert told["status"]["queries"]["totals"]["committed"] == 41


def test_status_shows_how_a_query_keeps_up(home: Path) -> None:
    """``status`` shows a query's batch duration beside its trigger interval, its rates, its lag, the share of
    checkpoint writes and the dropped rows.
    """
    push()
    source = SourceSignals(source="sales", lag_s=90.0)
    signals = QuerySignals(
        batch=41, batch_s=4.0, usual_batch_s=3.5, trigger_s=5.0, input_rows_per_s=120.0, processed_rows_per_s=300.0,
        checkpoint_write_s=1.0, dropped_rows=7, sources=(source,), last_trigger=1.0,
    )  # fmt: skip
    told = serving_status(beat=17)
    serve(home).write_status(replace(told, queries={"totals": replace(told.queries["totals"], signals=signals)}))
    text = " ".join(run("status", "orders").stdout.split())
    for words in ("4.0 s", "5 s", "120/s", "300/s", "90 s", "25%", "7"):
        assert words in text


def test_status_of_a_living_driver_is_serving(home: Path) -> None:
    """``status`` reports ``serving`` only while a process of the driver exists, and ``failed`` once it was killed."""
    push()
    serve(home).write_status(serving_status(beat=17))
    marked = {"STREAMKEEPER_INSTANCE": f"orders/{DRIVER}"}
    with subprocess.Popen(["/bin/sleep", "60"], env=marked) as process:
        alive = json.loads(run("status", "orders", "--json").stdout)
        process.kill()
    assert (alive["standing"], alive["life"]) == ("serving", "alive")
    assert json.loads(run("status", "orders", "--json").stdout)["standing"] == "failed"


def test_status_of_a_finished_driver_is_finished(home: Path) -> None:
    """``status`` reports ``finished``, not a failure, for a driver whose ``availableNow`` job has read everything."""
    push()
    serve(home).write_exit(DriverExit(instance=DRIVER, state=DriverState.FINISHED, code=3))
    assert "finished" in run("status", "orders").stdout


def test_jobs_lists_every_job_with_its_release(home: Path) -> None:
    """``jobs`` lists a job as not deployed after a push and with its current release after a deploy, as a table and as
    JSON.
    """
    push()
    assert "not deployed" in run("jobs").stdout
    serve(home)
    assert "r0001" in run("jobs").stdout
    (told,) = json.loads(run("jobs", "--json").stdout)
    assert (told["job"], told["standing"], told["restarts"]) == ("orders", "failed", 0)
    assert "memory" not in told


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("status", "nobody"), "job nobody is not known"),
        (("history", "No-Name"), "job name 'No-Name' is not allowed"),
        (("release", "show", "orders", "r0009"), "job orders has no release r0009"),
        (("release", "show", "orders", "seven"), "'seven' is not a release"),
        (("release", "push", "nobody"), "nobody"),
        (("release", "push", "orders", "--params", "{"), "--params is not JSON"),
        (("release", "push", "orders", "--params", "[" * 100_000), "--params is nested too deeply"),
        (("release", "push", "orders", "--params", '{"a": 1, "a": 2}'), "--params has a more than once"),
        (("release", "push", "orders", "--params", '{"a": NaN}'), "--params has NaN, which is not JSON"),
        (
            ("release", "push", "orders", "--params", '{"a": 1e999}'),
            "param a is a number outside the range that can be stored",
        ),
        (("fsck", "/" + "x" * 5_000), "too long a name"),
        (("release", "push", "orders", "--params", "[1]"), "--params must be a JSON object"),
        (("release", "push", "orders", "--params", '{"a": [1]}'), "param a must be"),
        (("release", "push", "orders", "--conf", "x"), "--conf 'x' is not KEY=VALUE"),
        (("describe", "orders.py"), "'orders.py' is not FILE:NAME"),
        (("describe", "missing.py:orders"), "job file missing.py does not exist"),
        (("deploy", "orders", "--release", "latest"), "'latest' is not a release"),
        (("snapshot", "list", "nobody"), "job nobody is not known"),
        (("snapshot", "list", "nobody/totals"), "job nobody is not known"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(home: Path, words: tuple[str, ...], line: str) -> None:
    """Invalid input is named in one line on stderr with exit code 2; nothing is printed on stdout and nothing is
    written.
    """
    push()
    before = sorted(home.rglob("*"))
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(home.rglob("*")) == before


def test_a_missing_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without STREAMKEEPER_HOME reports in its error that the variable is not set."""
    monkeypatch.delenv("STREAMKEEPER_HOME", raising=False)
    result = run("jobs")
    assert (result.exit_code, result.stderr[:36]) == (2, "error: STREAMKEEPER_HOME is not set ")


@pytest.mark.parametrize(
    "words",
    [
        ("jobs",), ("jobs", "--now", "--json"), ("status", "orders"), ("history", "orders"), ("incidents",),
        ("release", "list", "orders"), ("snapshot", "list"), ("snapshot", "take"), ("recover", "orders"),
        ("stop", "orders", "--reason", "a test"), ("start", "orders", "--reason", "a test"), ("prune",),
        ("logs", "orders"),
        ("forget", "orders", "--reason", "a test"), ("approve", "orders", "op", "--reason", "a test"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_invalid_home_is_refused_and_nothing_is_created(home: Path, words: tuple[str, ...]) -> None:
    """A home that does not exist, is empty, is a file or has an empty store is refused by name and nothing is created
    in it.
    """
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: STREAMKEEPER_HOME={home} does not exist (correct STREAMKEEPER_HOME or" in result.stderr
    assert not home.exists()
    home.mkdir()
    result = run(*words)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert f"error: STREAMKEEPER_HOME={home}: there is no store at {(home / 'store').as_uri()}" in result.stderr
    assert list(home.iterdir()) == []
    home.rmdir()
    home.touch()
    assert f"STREAMKEEPER_HOME={home}: {home} is a file (set STREAMKEEPER_HOME to a directory" in run(*words).stderr
    home.unlink()
    (home / "store").mkdir(parents=True)
    assert f"{home}: no job was ever deployed or pushed to {(home / 'store').as_uri()}" in run(*words).stderr
    assert list((home / "store").iterdir()) == []


def test_creating_an_installation_prints_its_location_only_once(home: Path) -> None:
    """The command that creates a new installation prints a note with its location, so that a mistyped home is noticed;
    the next command prints none.
    """
    assert f"note: STREAMKEEPER_HOME={home} does not exist: a new installation is created there" in push().stderr
    assert push().stderr == ""


def test_release_list_shows_time_author_reason_params_and_status(home: Path) -> None:
    """``release list`` shows the time, author, reason, params and status of each release on one line, with control
    characters and markup escaped.
    """
    push()
    serve(home)
    run("release", "push", "orders", "--params", '{"input": "[red]/other\\n\\u001b[2J"}')
    header, first, second = run("release", "list", "orders").stdout.splitlines()
    assert header.split() == ["release", "registered", "status", "verdict", "by"]
    assert re.search(r"r0001 +\d{4}-\d\d-\d\d \d\d:\d\dZ +current +- +ann +first; input=/data, spark.sql", first)
    assert re.search(rf"r0002 +.*Z +pushed +- +cli:{user_name()} +input=\[red\]/other \\x1b\[2J$", second)
    told = json.loads(run("release", "list", "orders", "--json").stdout)
    assert [each["stands"] for each in told] == ["serves", "pushed"]
    assert (told[0]["author"], told[0]["reason"], told[0]["operation"]) == ("ann", "first", "op-1")


def test_ctrl_c_during_a_deploy_prints_the_command_that_continues_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during a deploy prints the open operation and the command that continues it; a different deploy is
    refused, and the same command continues the operation.
    """

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Deploy, "run", interrupt)
    result = run("deploy", "orders", "--params", PARAMS, "--reason", "first")
    assert result.exit_code == 130
    operation = next(iter(Journal(LocalStore(home / "store"), "orders", writer="test").state().operations))
    assert f"operation {operation} of job orders stays open" in result.stderr
    assert "streamkeeper deploy orders --on-open continue" in result.stderr
    other = run("deploy", "orders", "--params", PARAMS)
    assert other.exit_code == 2
    assert f"job orders has an open operation {operation}" in other.stderr
    again = run("deploy", "orders", "--params", PARAMS, "--reason", "first")
    assert again.exit_code == 130
    assert f"operation {operation} is open and was started by the same command; continuing it" in again.stdout
    assert list(Journal(LocalStore(home / "store"), "orders", writer="test").state().operations) == [operation]
    assert operation in run("jobs").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("deploy", "orders", "--strategy", "nosuch"), "Invalid value for '--strategy': 'nosuch' is not one of 'auto'"),
        (("deploy", "orders", "--dryrun"), "No such option: --dryrun"),
        (("deploy",), "Missing argument 'JOB'"),
        (("home", "shw"), "No such command 'shw'"),
        (("prune", "--grace", "x"), "Invalid value for '--grace'"),
    ],
    ids=str,
)
def test_wrong_usage_is_reported_in_one_line_with_the_help_command(
    home: Path, words: tuple[str, ...], told: str
) -> None:
    """Wrong usage, such as an unknown option or a missing argument, is reported in one error line that names the
    command's help, with exit code 2.
    """
    result = run(*words)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    assert result.output.startswith(f"error: {told}")
    assert "--help`)" in result.output
