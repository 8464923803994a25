"""Attacks on input files: rehearsals whose source deletes files, and file names that Spark interprets as patterns."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from chaos.attacks.attack import QUERIES, Attack
from chaos.cases import JOB
from harness.places import ROOT
from harness.producer import EVENTS, SALES, write_whole

_NAMES = ("[0-9]*", "{000000,000001}", "?00000", "a\\b")


def cleaning_clones(at: Attack, chance: random.Random) -> None:
    """Run a dry run after a restore, or a drill beside the driver, of a release whose source deletes or archives files:
    the input files must remain.
    """
    how, cleaner = at.way("dry-run", "drill"), chance.choice(("delete", "archive"))
    with at.ended():
        at.serve()
        at.must(at.run("snapshot", "take", JOB))
        at.more(chance.uniform(2.0, 4.0))
        folder, series = at.bed.input / SALES, f"{JOB}/totals"
        given = {"cleaner": cleaner, "archive": str(at.bed.root / "archive")}
        before = _names(folder)
        if how == "drill":
            job = ("--job-file", f"{ROOT}/chaos/jobs/ledgers.py:{JOB}", "--query", "totals")
            params = json.dumps({**at.params(), **given})
            answer = at.run("snapshot", "drill", series, *job, "--params", params)
        else:
            at.kill()
            at.must(at.run("snapshot", "restore", series))
            answer = at.ask("--dry-run", **given)
        at.must(answer)
        at.did.append(f"a {how} with cleanSource={cleaner} beside {len(before)} files")
        at.told.append(" ".join(answer.stdout.split())[-300:])
        if gone := before - _names(folder):
            at.damage.append(f"{how}: {len(gone)} of {len(before)} input files are gone, such as {min(gone)}")
        at.go_on()


def pattern_names(at: Attack, chance: random.Random) -> None:
    """Add a file whose name Spark interprets as a pattern to a batch with other files: the deploy must be refused and
    name the file.
    """
    name = at.way(*_NAMES)
    with at.ended():
        at.serve()
        at.kill()
        for number, stem in enumerate(("800000", "800001", name)):
            ids = [f"x{number}-{row:03d}" for row in range(chance.randrange(1, 9))]
            write_whole(at.bed.input / EVENTS, f"{stem}.csv", [(each, "c000", "sale", 1) for each in ids])
            write_whole(at.bed.input / SALES, f"{stem}.csv", [(each, "c000", 1) for each in ids])
        at.did.append(f"a file {name}.csv")
        answer = at.ask()
        at.told.append(" ".join((answer.stderr or answer.stdout).split())[-400:])
        if answer.returncode == 0:
            at.damage.append(f"{name}.csv: it was deployed")
        elif f"{name}.csv" not in answer.stderr:
            at.damage.append(f"{name}.csv is not named: {answer.stderr.strip()[-300:]}")
        for folder in (EVENTS, SALES):
            os.rename(at.bed.input / folder / f"{name}.csv", at.bed.input / folder / "800002.csv")
        at.must(at.run("snapshot", "take", JOB, "--without-open-batch"))
        queries = [word for query in QUERIES for word in ("--query", query)]
        reason = ("--reason", "files renamed", "--accept-replay", "--accept-loss")
        restored = at.run("recover", JOB, "--action", "restore", *queries, *reason)
        at.told.append(" ".join((restored.stderr or restored.stdout).split())[-400:])
        at.must(restored)
        at.go_on()
        at.no_replays(name)


def _names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}
