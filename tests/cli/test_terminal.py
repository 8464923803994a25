"""Tests that the output of commands contains no secret from a param and no control sequence for the terminal."""

from __future__ import annotations

import ast
import io
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Group
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from streamkeeper.cli import release_commands, terminal
from streamkeeper.cli.main import app, print_error
from streamkeeper.model.protocol.driver_messages import (
    DriverExit,
    DriverState,
    DriverStatus,
    LaunchMode,
    LaunchSpec,
    QueryStatus,
)
from streamkeeper.model.records.journal_records import OperationFinished, OperationStarted, Outcome, ReleaseRegistered
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.fleet.watching import WatchPass, run_pass
from streamkeeper.operations.jobs import driver_logs, job_facts, overview
from streamkeeper.pages.fleet_view import FleetFilter, view_fleet
from streamkeeper.registry import driver_control
from streamkeeper.registry.driver_control import Control
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.installed import install

CLI = Path(terminal.__file__).parent
DRIVER = "op-candidate"
LITERAL, IN_A_URL = "hunter22 & co", "s3cr3t-pw"
PARAMS: dict[str, Any] = {"db_password": LITERAL, "warehouse": f"postgresql://app:{IN_A_URL}@db/sales"}
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e"
ERROR = f"OperationalError: login as app with {LITERAL} and {IN_A_URL} failed {HOSTILE}"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registered:
    """A job whose release has two secrets in its params, and whose driver, of an earlier version, has written both into
    its records and its log.
    """
    monkeypatch.setenv("COLUMNS", "400")
    found = install(tmp_path, monkeypatch)
    state = found.installation.journal(JOB, "test").state()
    release = state.releases["r0001"]
    content = msgspec.structs.replace(release.content, params=PARAMS)
    found.record(ReleaseRegistered(release=msgspec.structs.replace(release, number=2, content=content)))
    found.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB, params=PARAMS), steps=()))
    found.record(OperationFinished(operation="op2", outcome=Outcome.FAILED, sentence=f"the driver failed: {ERROR}"))
    records = Control(found.installation.store, JOB, DRIVER)
    records.write_launch(
        LaunchSpec(
            instance=DRIVER,
            job=JOB,
            release="r0002",
            mode=LaunchMode.STANDBY,
            bundle="",
            entry="",
            params=PARAMS,
            conf={},
            checkpoints="",
        )
    )
    query = QueryStatus(query=QUERY, version="v0001", epoch=1, error=ERROR)
    records.write_status(
        DriverStatus(
            instance=DRIVER,
            release="r0002",
            generation=1,
            state=DriverState.FAILED,
            beat=9,
            at="2026-01-01",
            queries={QUERY: query},
            error=ERROR,
            waiting=ERROR,
        )
    )
    records.write_exit(DriverExit(instance=DRIVER, state=DriverState.FAILED, code=1, error=ERROR))
    log = found.installation.settings.log(JOB, DRIVER)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{ERROR}\n")
    return found


def printed(*words: str) -> str:
    told = CliRunner().invoke(app, list(words))
    assert told.exit_code in (0, 1), told.output
    return told.output


COMMANDS = (
    ("jobs",), ("jobs", "--now"), ("jobs", "--json"), ("status", JOB), ("status", JOB, "--json"), ("logs", JOB),
    ("history", JOB), ("history", JOB, "--json"), ("incidents",), ("incidents", JOB), ("recover", JOB, "--json"),
    ("release", "list", JOB), ("release", "list", JOB, "--json"), ("release", "show", JOB, "r0002"),
)  # fmt: skip


def test_no_command_shows_a_secret_or_steers_the_terminal(job: Registered) -> None:
    """No command prints a secret or a control character from the status, the exit, the log or the journal that a driver
    of an earlier version wrote.
    """
    run_pass(WatchPass(installation=job.installation, acts=False))
    for words in COMMANDS:
        text = printed(*words)
        assert LITERAL not in text, words
        assert IN_A_URL not in text, words
        assert all(each.isprintable() or each in "\n\t" for each in text), words
    assert "login as app with *** and *** failed \\x1b]0;owned\\x07" in printed("logs", JOB)
    assert "***" in printed("status", JOB)
    assert "***" in printed("jobs")
    assert "db_password=***, warehouse=postgresql://app:***@db/sales" in printed("release", "list", JOB)
    assert json.loads(printed("release", "show", JOB, "r0002"))["content"]["params"]["db_password"] == "***"


def test_the_fleet_page_shows_no_secret(job: Registered) -> None:
    """The fleet page, built from the watch's index, shows no secret."""
    index = run_pass(WatchPass(installation=job.installation, acts=False)).index
    view = view_fleet(index, FleetFilter(), now=time.time())
    shown = json.dumps(msgspec.to_builtins(view))
    assert "***" in shown
    assert LITERAL not in shown
    assert IN_A_URL not in shown


def test_every_command_prints_the_secret_if_masking_is_off(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with masking switched off, every command prints the secret."""
    for module in (driver_logs, job_facts, overview):
        monkeypatch.setattr(module, "literals_of", lambda _: {})
    monkeypatch.setattr(driver_control, "with_literals", lambda *_: {})
    driver_control._literals.clear()
    run_pass(WatchPass(installation=job.installation, acts=False))
    monkeypatch.setattr(release_commands, "literals_of", lambda _: {})
    monkeypatch.setattr(release_commands, "is_shown_whole", lambda *_: True)
    listing = (("release", "list", JOB), ("release", "show", JOB, "r0002"))
    for words in (("jobs",), ("status", JOB), ("logs", JOB), *listing):
        assert LITERAL in printed(*words), words


def test_the_console_of_rich_passes_escape_sequences_through(capsys: pytest.CaptureFixture[str]) -> None:
    """Negative control: rich's own console passes an escape sequence through to the terminal."""
    import rich.console

    rich.console.Console().print(Text(HOSTILE))
    assert "\x1b]0;" in capsys.readouterr().out


@pytest.mark.parametrize("shown", [HOSTILE, Text(HOSTILE), Markdown(HOSTILE)], ids=["text", "Text", "Markdown"])
def test_nothing_that_is_printed_steers_the_terminal(shown: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters are printed as text in tables, errors and plain lines; the program's own colors are kept."""
    table = Table("a")
    table.add_row(Text(HOSTILE))
    console = terminal.Console()
    console.print(shown)
    console.print(table)
    terminal.echo(HOSTILE)
    print_error(HOSTILE)
    told = capsys.readouterr()
    assert all(each.isprintable() or each == "\n" for each in told.out + told.err)
    terminal.Console(force_terminal=True, color_system="standard").print("x", style="red")
    assert capsys.readouterr().out == "\x1b[31mx\x1b[0m\n"


def test_json_output_is_printable_and_parses_to_the_original_text(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON output contains only printable characters and parses to the original text, including control characters,
    direction marks and characters beyond 16 bits.
    """
    text = f"{HOSTILE} é \U000e0041 \U0001f600"
    terminal.echo_json(json.dumps({"a": text}, ensure_ascii=False))
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": text}
    assert all(each.isprintable() or each == "\n" for each in out)


def test_all_command_line_modules_print_through_the_terminal_module() -> None:
    """No other module of the command line uses typer's ``echo``, rich's ``Console`` or ``print``."""
    found = []
    for path in sorted(CLI.glob("*.py")):
        if path.stem == "terminal":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="typer"), attr="echo" | "secho"):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.ImportFrom(module="rich.console", names=names) if any(n.name == "Console" for n in names):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.Call(func=ast.Name(id="print")):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []


LONG = "/checkpoints/" + "very-long-name/" * 12 + "v0001"


def a_table() -> Table:
    table = Table("query", "checkpoint", "error")
    table.add_row("totals", LONG, "the sink is down " * 10)
    return table


def test_a_pipe_gets_every_cell_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe every table, also inside a group or Markdown, is printed uncut with one line per row, however narrow
    the console is.
    """
    monkeypatch.setenv("COLUMNS", "40")
    terminal.Console().print_table(a_table())
    terminal.Console().print_table(Group(Text("r0001"), a_table()))
    terminal.Console().print_markdown(
        f"## Findings\n\n| query | where | what |\n|---|---|---|\n| a | `{LONG}` | {LONG} |\n"
    )
    out = capsys.readouterr().out
    assert "…" not in out
    assert [line.count(LONG) for line in out.splitlines() if "very" in line] == [1, 1, 2]
    assert out.count(("the sink is down " * 10).strip()) == 2


def test_a_terminal_cuts_to_its_width(capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal of 60 columns a table is cut to that width. Negative control: rich's own method cuts it in a pipe
    too.
    """
    terminal.Console(force_terminal=True, color_system=None, width=60).print_table(a_table())
    terminal.Console(width=60).print(a_table())
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 60
    assert LONG not in out


def test_status_in_a_pipe_shows_long_errors_and_names_whole(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """``status`` in a pipe of 80 columns prints long errors uncut."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = printed("status", JOB)
    assert "…" not in shown
    assert sum("login as app with *** and *** failed \\x1b]0;owned\\x07" in line for line in shown.splitlines()) >= 2


def test_lines_around_a_wide_table_are_not_padded_in_a_pipe() -> None:
    """In a pipe a wide table does not pad the lines around it. Negative control: rich's own console pads lines to the
    console's width.
    """
    text = f"A paragraph.\n\n| one | two |\n|---|---|\n| {'wide ' * 40} | end |\n\nThe last."
    printed, filled = io.StringIO(), io.StringIO()
    terminal.Console(file=printed, width=80, color_system=None).print_markdown(text)
    terminal.Console(file=filled, width=300, color_system=None).print(Markdown(text))
    lines = printed.getvalue().splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert any("wide " * 39 in line and line.endswith("end") for line in lines)
    assert any(line != line.rstrip() for line in filled.getvalue().splitlines())
