"""Tests of ``snapshot`` and ``prune`` on any checkpoint: their output, their refusals and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.checkpoint_files import QUERY_ID, Tree
from streamkeeper.cli.main import app
from streamkeeper.model.records.snapshot import DrillResult, Hold
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.store_urls import open_store
from tests.snapshots.series import a_checkpoint, files_below, salt_state, wanted

SERIES = f"adopted/{QUERY_ID}"


class Shell:
    """A checkpoint and a store, with methods that run commands on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.live: Tree = a_checkpoint(root / "live")
        self.store = ["--store", str(root / "store")]

    def run(self, *arguments: str) -> Result:
        """Run a command as it is typed."""
        return CliRunner().invoke(app, list(arguments))

    def snapshot(self, verb: str, *arguments: str) -> Result:
        """Run a ``snapshot`` command on this checkpoint and store."""
        return self.run("snapshot", verb, *arguments, "--checkpoint", str(self.root / "live"), *self.store)

    def listed(self) -> list[str]:
        """Return the names of the snapshots in the list."""
        return [line.split()[1] for line in self.snapshot("list").output.splitlines()[1:]]

    def commit(self, batch: int) -> None:
        """Add one committed batch to the checkpoint."""
        self.live.plan(batch)
        self.live.commit(batch, snapshot=True)
        salt_state(self.root / "live")

    def objects(self) -> list[Path]:
        """Return the path of every object in the store."""
        return sorted(path for path in (self.root / "store").rglob("*") if path.is_file())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A checkpoint that was never deployed from here, without an installation."""
    monkeypatch.delenv("STREAMKEEPER_HOME", raising=False)
    return Shell(tmp_path)


def test_snapshot_commands_work_without_an_installation(shell: Shell) -> None:
    """Taking, listing, showing, verifying and restoring snapshots work with only a checkpoint and a store; a second
    snapshot of the same batch is not taken.
    """
    first = shell.snapshot("take")
    assert first.exit_code == 0
    assert first.output.startswith(f"{SERIES}: s0001 contains batch 7: 21 files")
    assert "no batch was committed since s0001 (batch 7)" in shell.snapshot("take").output
    shell.commit(8)
    assert "s0002 contains batch 8" in shell.snapshot("take").output
    assert shell.listed() == ["s0001", "s0002"]
    shown = shell.snapshot("show", "--batch", "7", "--files").output
    assert "batch 7" in shown
    assert "offsets/7" in shown
    verified = shell.snapshot("verify")
    assert (verified.exit_code, "all objects are intact" in verified.output) == (0, True)
    restored = shell.snapshot("restore", "--id", "s0002", "--to", str(shell.root / "back"))
    assert restored.exit_code == 0
    assert files_below(shell.root / "back") == wanted(shell.root / "live", 8)


def test_a_snapshot_leaves_out_the_plan_of_the_open_batch_when_asked(shell: Shell) -> None:
    """``--without-open-batch`` leaves the plan of the open batch out, also when the newest snapshot of the same batch
    contains it. Negative control: by default the plan is kept.
    """
    shell.live.plan(8)
    assert "s0001 contains batch 7" in shell.snapshot("take").output
    assert "s0002 contains batch 7" in shell.snapshot("take", "--without-open-batch").output
    assert "no batch was committed since s0002" in shell.snapshot("take", "--without-open-batch").output
    for name in ("s0001", "s0002"):
        assert shell.snapshot("restore", "--id", name, "--to", str(shell.root / name)).exit_code == 0
    assert files_below(shell.root / "s0001") == wanted(shell.root / "live", 7, pending=True)
    assert files_below(shell.root / "s0002") == wanted(shell.root / "live", 7)


def test_a_lost_directory_is_restored_by_the_name_of_its_series(shell: Shell) -> None:
    """A lost checkpoint is restored from the store alone, by the series name that ``snapshot list`` prints."""
    kept = wanted(shell.root / "live", 7)
    shell.snapshot("take")
    listed = shell.run("snapshot", "list", *shell.store, "--json")
    assert json.loads(listed.output)["series"] == SERIES
    (shell.root / "live").rename(shell.root / "lost")
    done = shell.run("snapshot", "restore", SERIES, *shell.store, "--to", str(shell.root / "live"))
    assert done.exit_code == 0
    assert files_below(shell.root / "live") == kept


def test_a_dry_run_writes_nothing(shell: Shell) -> None:
    """``snapshot restore --dry-run`` prints what it would write and creates nothing."""
    shell.snapshot("take")
    told = shell.snapshot("restore", "--dry-run", "--to", str(shell.root / "back"))
    assert told.output.startswith("would write s0001 (batch 7")
    assert not (shell.root / "back").exists()


def test_snapshot_verify_exits_with_1_and_names_damaged_objects(shell: Shell) -> None:
    """``snapshot verify`` names a damaged object and the snapshots that can no longer be restored, and exits with 1."""
    shell.snapshot("take")
    pack = next(each for each in shell.objects() if "packs" in each.parts)
    pack.write_bytes(pack.read_bytes()[:-1] + b"?")
    done = shell.snapshot("verify")
    assert done.exit_code == 1
    assert "cannot be restored: s0001" in done.output
    assert pack.name in done.output


def test_a_damaged_snapshot_record_is_listed_and_other_snapshots_stay_restorable(shell: Shell) -> None:
    """A snapshot whose record is damaged is listed as unreadable and stops pruning of its series; another snapshot can
    still be restored by its id.
    """
    shell.snapshot("take")
    shell.commit(8)
    shell.snapshot("take")
    record = next(each for each in shell.objects() if each.parent.name == "index" and each.name.endswith("2"))
    record.write_bytes(b"?" + record.read_bytes()[1:])
    _, first, second = shell.snapshot("list").output.splitlines()
    assert first.split()[1:3] == ["s0001", "7"]
    assert "kept: no snapshot of this series is pruned while one of its records cannot be read" in first
    assert second.split()[1] == "s0002"
    assert "cannot be read" in second
    latest = shell.snapshot("restore", "--to", str(shell.root / "back"))
    assert (latest.exit_code, "--id" in latest.stderr) == (2, True)
    assert shell.snapshot("restore", "--id", "s0001", "--to", str(shell.root / "back")).exit_code == 0


def test_prune_removes_exactly_the_snapshots_listed_by_its_dry_run(shell: Shell) -> None:
    """``prune --dry-run`` removes nothing and prints each snapshot with its reason; the prune then removes exactly
    those, and a pinned one only once the pin is removed.
    """
    for batch in (8, 9, 10):
        shell.snapshot("take")
        shell.commit(batch)
    shell.run("snapshot", "pin", SERIES, "s0001", *shell.store, "--reason", "before the move")
    rules = ["--keep", "last=1,hourly=0,daily=0,weekly=0,monthly=0"]
    before = shell.objects()
    dry = shell.run("prune", SERIES, *shell.store, *rules, "--dry-run")
    assert shell.objects() == before
    lines = dry.output.splitlines()
    assert lines[0].startswith(f"keep {SERIES} s0001: pinned: before the move")
    assert lines[1].startswith(f"drop {SERIES} s0002: ")
    done = shell.run("prune", SERIES, *shell.store, *rules, "--grace", "0")
    assert done.exit_code == 0
    assert "pruned 1 snapshots" in done.output
    assert shell.listed() == ["s0001", "s0003"]
    assert shell.snapshot("verify").exit_code == 0
    shell.run("snapshot", "pin", SERIES, "s0001", *shell.store, "--remove")
    shell.run("prune", SERIES, *shell.store, *rules, "--grace", "0")
    assert shell.listed() == ["s0003"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["snapshot", "take", "--checkpoint", "{root}/nothing", "--store", "{root}/store"], "does not exist"),
        (["snapshot", "take", "--checkpoint", "{root}", "--store", "{root}/store"], "is not a checkpoint"),
        (["snapshot", "take", "--checkpoint", "{root}/live"], "--store URL"),
        (["snapshot", "take", "--checkpoint", "gs://x/y", "--store", "{root}/store"], "gs://"),
        (["snapshot", "take", "--checkpoint", "{root}/live", "--store", "gs://x"], "gs:// is not supported"),
        (["snapshot", "take", "a/b", "--checkpoint", "{root}/live"], "name only one of them"),
        (["snapshot", "take", "../x", "--store", "{root}/store"], "not allowed"),
        (["snapshot", "take", "/"], "job name '' is not allowed"),
        (["snapshot", "take"], "STREAMKEEPER_HOME is not set"),
        (["snapshot", "show", "--store", "{root}/store"], "known series: none yet"),
        (["snapshot", "restore", SERIES, "--store", "{root}/store", "--to", "{root}/x"], "there is no snapshot"),
        (["snapshot", "restore", SERIES, "--store", "{root}/store", "--id", "7"], "looks like s0007"),
        (["snapshot", "restore", SERIES, "--store", "{root}/store", "--at", "noon"], "is not a time"),
        (
            ["snapshot", "restore", SERIES, "--store", "{root}/store", "--id", "s0001", "--batch", "3"],
            "give only an id, only a batch or only a time",
        ),
        (["snapshot", "pin", SERIES, "s0001", "--store", "{root}/store"], "a pin needs a reason"),
        (
            ["snapshot", "pin", SERIES, "s0009", "--store", "{root}/store", "--reason", "a test"],
            "has no snapshot s0009",
        ),
        (["prune", "--store", "{root}/store", "--keep", "yearly=1"], "is not a rule of a retention policy"),
        (["prune", "--store", "{root}/store", "--grace", "-1"], "is negative"),
    ],
)
def test_invalid_input_is_refused_in_one_line_that_names_the_remedy(
    shell: Shell, arguments: list[str], line: str
) -> None:
    """Invalid input is refused in one line that names the remedy, with exit code 2, and writes nothing to the store."""
    (shell.root / "store").mkdir()
    done = shell.run(*(each.format(root=shell.root) for each in arguments))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert line in done.stderr
    assert shell.objects() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["snapshot", "list"],
        ["snapshot", "show"],
        ["snapshot", "verify"],
        ["snapshot", "drill", "--job-file", "{root}/job.py:job"],
        ["snapshot", "restore", SERIES, "--to", "{root}/x"],
        ["snapshot", "pin", SERIES, "s0001", "--reason", "a test"],
        ["snapshot", "export", SERIES, "--to", "{root}/x"],
        ["prune"],
    ],
)
def test_only_snapshot_take_creates_a_missing_store(shell: Shell, arguments: list[str]) -> None:
    """Only ``snapshot take`` creates the directory of a store; every other command reports that the store does not
    exist.
    """
    done = shell.run(*(each.format(root=shell.root) for each in arguments), *shell.store)
    assert (done.exit_code, done.stderr) == (2, f"error: store {shell.root}/store does not exist (check --store)\n")
    assert not (shell.root / "store").exists()
    assert shell.snapshot("take").exit_code == 0
    assert (shell.root / "store").is_dir()


def test_a_short_grace_period_is_refused_where_there_is_something_to_prune(shell: Shell) -> None:
    """A grace period of 60 s is refused as too short, because a snapshot that is being taken relies on it."""
    shell.snapshot("take")
    done = shell.run("prune", SERIES, *shell.store, "--grace", "60")
    assert (done.exit_code, "too short" in done.stderr) == (2, True)


def test_a_drill_of_an_adopted_checkpoint_asks_for_the_jobs_code(shell: Shell) -> None:
    """A drill of a checkpoint that was not deployed from here requires ``--job-file``, because the query that wrote it
    is not recorded.
    """
    shell.snapshot("take")
    assert "--job-file FILE:NAME" in shell.snapshot("drill").stderr


def test_snapshot_list_shows_verification_and_retention_reason(shell: Shell) -> None:
    """``snapshot list`` shows whether each snapshot is verified by its newest drill and why it is kept, and prints text
    that others wrote on one line without escape sequences.
    """
    for batch in (8, 9, 10):
        shell.snapshot("take")
        shell.commit(batch)
    catalogue = Catalogue(open_store(str(shell.root / "store")), SERIES)
    failed = DrillResult(id="d1", ok=False, message="[red]no\nstate\x1b[2J[/red]", at="2026-11-22T10:00:00+00:00")
    catalogue.note_drill(1, failed)
    catalogue.note_drill(2, DrillResult(id="d1", ok=False, message="no", at="2026-11-22T10:00:00+00:00"))
    catalogue.note_drill(2, DrillResult(id="d2", ok=True, message="went on", at="2026-11-23T10:00:00+00:00"))
    shell.run("snapshot", "pin", SERIES, "s0001", *shell.store, "--reason", "before the move")
    catalogue.hold(3, Hold(owner="op-1", reason="the cutover", at="2026-11-23T10:00:00+00:00"))
    header, first, second, third = shell.snapshot("list").output.splitlines()
    assert header.split() == ["series", "snapshot", "batch", "taken", "age", "size", "new", "verified"]
    assert "FAILED" in first
    assert "NOT verified 2026-11-22T10:00:00 by drill d1: [red]no state\\x1b[2J[/red]; kept: " in first
    assert "pinned: before the move" in first
    assert "yes     " in second
    assert "verified 2026-11-23T10:00:00 by drill d2: went on; kept: " in second
    assert "the newest verified" in second
    assert "no        kept: the newest, " in third
    assert third.endswith("held by op-1")
    told = [json.loads(line) for line in shell.snapshot("list", "--json").output.splitlines()]
    assert [each["verified"] for each in told] == [False, True, None]
    assert told[2]["holds"][0]["reason"] == "the cutover"


def test_an_empty_snapshot_list_names_the_take_command(shell: Shell) -> None:
    """An empty list names the command that takes the first snapshot."""
    (shell.root / "store").mkdir()
    told = shell.snapshot("list").output
    live = shell.root / "live"
    take = f"streamkeeper snapshot take --checkpoint {live}"
    assert told == f"there is no snapshot of {live} yet. To take one, run `{take}`\n"


def test_a_prune_of_one_series_follows_the_installation_retention_policy(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prune of one series follows the retention policy in STREAMKEEPER_KEEP unless ``--keep`` is given."""
    monkeypatch.setenv("STREAMKEEPER_HOME", str(shell.root / "home"))
    for batch in (8, 9):
        assert shell.run("snapshot", "take", "--checkpoint", str(shell.root / "live")).exit_code == 0
        shell.commit(batch)
    assert f"keep {SERIES} s0001" in shell.run("prune", SERIES, "--dry-run").output
    monkeypatch.setenv("STREAMKEEPER_KEEP", "last=1,hourly=0,daily=0,weekly=0,monthly=0")
    assert f"drop {SERIES} s0001" in shell.run("prune", SERIES, "--dry-run").output
    assert f"keep {SERIES} s0001" in shell.run("prune", SERIES, "--dry-run", "--keep", "last=9").output
