"""Attacks on outputs: one that is missing or older than its checkpoint, and one that two jobs write."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from pathlib import Path

from chaos.attacks.attack import Attack
from chaos.cases import JOB

OTHER = "copycat"
_LACKS = "lacks committed batches"


def lost_output(at: Attack, chance: random.Random) -> None:
    """Remove or drop an output, or replace it by an older copy, while nothing runs; a deploy, start or restart must be
    refused.
    """
    how = at.way("the database is gone", "the directory is gone", "the table is dropped", "an older copy")
    kept = at.bed.root / "kept"
    with at.ended():
        at.serve()
        older = at.bed.root / "older"
        at.kill()
        _copy(at.output, older)
        at.go_on()
        at.more(chance.uniform(1.0, 3.0))
        at.kill()
        _copy(at.output, kept)
        lost = _lose(at.output, older, how)
        at.did.append(how)
        before = _listing(at.output)
        at.refused("deploy", at.ask(), "output-lost", str(lost))
        at.refused("start", at.run("start", JOB, "--reason", "attack"), "output-lost", str(lost))
        looked = at.run("recover", JOB)
        if _LACKS not in looked.stdout:
            at.damage.append(f"recover: {looked.stdout.strip()[-300:]}")
        at.refused("restart", at.run("recover", JOB, "--action", "restart", "--reason", "attack"), "--accept-loss")
        if _listing(at.output) != before:
            at.damage.append(f"created in its place: {sorted(_listing(at.output) - before)}")
        at.kill()
        shutil.rmtree(at.output)
        os.rename(kept, at.output)
        at.go_on()
        at.no_replays(how)


def _copy(output: Path, target: Path) -> None:
    """Copy all outputs in their current state, with the logs of the databases."""
    shutil.copytree(output, target)


def _lose(output: Path, older: Path, how: str) -> Path:
    """Lose an output in this way, and return its path."""
    database, files = output / "warehouse.db", output / "copies"
    match how:
        case "the directory is gone":
            shutil.rmtree(files)
            return files
        case "the table is dropped":
            with sqlite3.connect(database) as connection:
                connection.execute("DROP TABLE totals")
            return database
    for file in output.glob("warehouse.db*"):
        file.unlink()
    if how == "an older copy":
        for file in older.glob("warehouse.db*"):
            shutil.copy(file, output / file.name)
    return database


def _listing(output: Path) -> set[str]:
    """Return every path below the outputs, except the files that SQLite leaves beside a database that was read."""
    return {str(path) for path in output.rglob("*") if not path.name.endswith(("-wal", "-shm"))}


def two_jobs(at: Attack, chance: random.Random) -> None:
    """Give a second job the outputs of the serving one, in a dry run and in a deploy; both must be refused."""
    dead, first = at.way((False, "dry run"), (True, "dry run"), (False, "deploy"), (True, "deploy"))
    words = ("--params", json.dumps(at.params()), "--reason", "attack", *at.haste)
    with at.ended():
        at.serve()
        code = (at.bed.jobs / f"{JOB}.py").read_text()
        (at.bed.jobs / f"{OTHER}.py").write_text(code.replace(f'name="{JOB}"', f'name="{OTHER}"'))
        if dead:
            at.kill()
        at.did.append(f"a {first} of another job with the same outputs{', nothing alive' if dead else ''}")
        asks = [("dry run", ("--dry-run",)), ("deploy", ())]
        for what, option in asks if first == "dry run" else reversed(asks):
            answer = at.run("deploy", OTHER, *words, *option)
            said = f"{answer.stdout} {answer.stderr}"
            at.told.append(f"{what}: {' '.join(said.split())[-300:]}")
            if answer.returncode == 0 or "output-of-another-query" not in said:
                at.damage.append(f"{what}: it was not refused: {' '.join(said.split())[-300:]}")
        at.go_on()
        at.no_replays("two jobs")
