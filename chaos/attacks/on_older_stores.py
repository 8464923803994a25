"""An older copy of the store is put back while no driver runs: nothing may continue from the versions that it names."""

from __future__ import annotations

import os
import random
import shutil

from chaos.attacks.attack import QUERIES, Attack
from chaos.cases import JOB

TOLD = ("older than what was written", "registry rebuild")


def older_store(at: Attack, chance: random.Random) -> None:
    """Put back a copy of the store from before each query got its next checkpoint version: a start, a deploy, a
    recovery or the watch must detect it. The newer store is put back at the end.
    """
    how = at.way("watch", "start", "deploy", "recover")
    store, older, newer = (at.bed.home / "store", at.bed.root / "older", at.bed.root / "newer")
    with at.ended():
        at.serve()
        shutil.copytree(store, older)
        at.must(at.run("stop", JOB, "--reason", "attack"))
        at.must(at.run("snapshot", "take", JOB))
        for query in QUERIES:
            at.must(at.run("snapshot", "restore", f"{JOB}/{query}", "--accept-replay"))
        at.must(at.run("start", JOB, "--reason", "attack"))
        at.more(chance.uniform(1.0, 2.5))
        at.kill()
        os.rename(store, newer)
        os.rename(older, store)
        at.did.append(f"the store is an older copy, and then: {how}")
        _go_on(at, how)
        at.no_replays(how)
        if not at.damage:
            os.rename(store, older)
            os.rename(newer, store)
            at.must(at.run("start", JOB, "--reason", "the newer store is back"))
            at.more()
            at.no_replays("the newer store")


def _go_on(at: Attack, how: str) -> None:
    match how:
        case "watch":
            for _ in range(2):
                answer = at.must(at.run("watch", "--once"))
                at.told.append(answer.stdout.strip()[-300:])
            if "journal-outdated" not in at.run("incidents").stdout:
                at.damage.append("the watch raised nothing about the older store")
        case "start":
            at.refused("start", at.run("start", JOB, "--reason", "attack"), *TOLD)
        case "deploy":
            at.refused("deploy", at.ask(), *TOLD)
            at.refused("dry run", at.ask("--dry-run"), *TOLD)
        case "recover":
            restart = at.run("recover", JOB, "--action", "restart", "--reason", "attack", "--accept-replay")
            at.refused("recover", restart, "older than what was written")
            restore = at.run("snapshot", "restore", f"{JOB}/audit", "--accept-replay")
            at.refused("snapshot restore", restore, *TOLD)
