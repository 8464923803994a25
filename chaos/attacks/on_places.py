"""Attacks on places: a copied home, input under a different name or missing, and URLs where a directory is expected."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

from chaos.attacks.attack import Attack
from chaos.cases import JOB
from harness.places import ROOT
from streamkeeper.checkpoints.facts import offsets_at
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.locations import local_path
from streamkeeper.model.protocol.liveness import Life

URLS = ("gs://bucket/there", "dbfs:/there", "abfss://c@a.dfs/there")
COMMANDS = (
    ("offsets", "{url}"),
    ("fsck", "{url}"),
    ("describe", "{url}.py:job"),
    ("check", "--batch", "{url}"),
    ("check", "--deployed", "{job}", "--candidate", "{job}", "--checkpoint", "{url}"),
    ("snapshot", "restore", "{series}", "--to", "{url}"),
    ("snapshot", "export", "{series}", "--to", "{url}"),
    ("snapshot", "drill", "{series}", "--job-file", "{url}.py:job"),
)
"""Commands that accept a place; ``tests/cli/test_locations.py`` covers every option of every command."""
NAMED = (
    *("--conf", "spark.sql.streaming.queryEvolution.enableSourceEvolution=true"),
    *("--conf", "spark.sql.streaming.offsetLog.formatVersion=2"),
)
"""The confs that named sources need in Spark 4.2."""
VARIABLES = ("HOME", "CHECKPOINTS", "JOBS")


def copied_home(at: Attack, chance: random.Random) -> None:
    """Copy the serving home with ``cp -a`` and deploy in the copy, in some cases also after ``home new`` in it: the
    original driver must survive.
    """
    told_new = at.way(True, False)
    with at.ended():
        at.serve()
        serving = at.state().serving_instance
        copy = at.bed.root / "copy" / "home"
        shutil.copytree(at.bed.home, copy, symlinks=True)
        extra = {"STREAMKEEPER_HOME": str(copy)}
        at.did.append(f"a deploy in a copied home{', after home new' if told_new else ''}")
        at.refused("deploy in the copy", at.ask_with(extra), "was copied or moved", "streamkeeper home new")
        for verb in (("snapshot", "take", JOB), ("prune",)):
            at.refused(f"{verb[0]} in the copy", at.run(*verb, extra=extra), "was copied or moved")
        if told_new:
            at.must(at.run("home", "new", "--reason", "staging", extra=extra))
            at.refused("deploy in a new one", at.ask_with(extra), "belongs to the installation", "snapshot restore")
        life = at.bed.installation.runner.observe(JOB, serving).life
        if life is not Life.ALIVE:
            at.damage.append(f"production's {serving} is {life.value}")
        at.more()
        at.go_on()
        at.no_replays("a copied home")


def moved_input(at: Attack, chance: random.Random) -> None:
    """Provide the same files under a different name: a renamed directory, a link, hard links, or a mirror with and
    without their times.
    """
    how = at.way("renamed", "linked", "mirrored", "copied", "hard-linked")
    root = at.bed.root
    with at.ended():
        at.serve(input=f"{root}/inp*")
        at.more()
        _move(root / "input", root / "mirror", how)
        if how == "renamed":
            at.kill()
            os.rename(root / "input", root / "mirror")
            at.bed.input = root / "mirror"
        at.did.append(f"input {how}")
        answer = at.ask(input=f"{root}/mirr*")
        at.told.append(" ".join((answer.stderr or answer.stdout).split())[-400:])
        if answer.returncode == 0 and "RESUME" in answer.stdout:
            at.damage.append(f"{how}: it goes on in the same checkpoint: {answer.stdout.strip()[-300:]}")
        if answer.returncode and how == "renamed":
            os.rename(root / "mirror", root / "input")
            at.bed.input = root / "input"
        at.go_on(input=f"{root}/inp*" if answer.returncode else f"{root}/mirr*")
        at.no_replays(how)


def _move(input_: Path, new: Path, how: str) -> None:
    match how:
        case "linked":
            new.symlink_to(input_)
        case "mirrored":
            shutil.copytree(input_, new)
        case "copied":
            shutil.copytree(input_, new, copy_function=shutil.copyfile)
        case "hard-linked":
            shutil.copytree(input_, new, copy_function=os.link)


def missing_input(at: Attack, chance: random.Random) -> None:
    """Remove a file of the last batch of a query with named sources, which Spark would silently replay without it: the
    check must report it.
    """
    with at.ended():
        at.serve(*NAMED, named=True)
        directory = at.checkpoint("copies")
        tree = LocalTree(directory)
        newest = last_committed(tree)
        assert newest is not None
        files = [local_path("input", url) for source in offsets_at(tree, newest) for url in source.files]
        gone = chance.choice(files)
        hidden = at.bed.root / gone.name
        os.rename(gone, hidden)
        at.did.append(f"{gone.name} of batch {newest} is gone")
        if at.way(True, False):
            answer = at.run("check", *_the_same(at), *NAMED)
        else:
            answer = at.ask(*NAMED, named=True)
        said = " ".join((answer.stdout + answer.stderr).split())
        at.told.append(said[-400:])
        if "input-of-last-batch-gone" not in said:
            at.damage.append(f"the missing input is not told: {said[-300:]}")
        os.rename(hidden, gone)


def _the_same(at: Attack) -> list[str]:
    """Return the arguments that check the unchanged job against the checkpoint of ``copies``."""
    params = {"input": str(at.bed.input), "output": str(at.output), "named": True}
    job = f"{ROOT}/chaos/jobs/ledgers.py:ledgers"
    what = ["--deployed", job, "--candidate", job, "--query", "copies"]
    return [*what, "--params", json.dumps(params), "--checkpoint", str(at.checkpoint("copies"))]


def urls(at: Attack, chance: random.Random) -> None:
    """Pass URLs of unsupported systems to commands and in the variables of the installation: each must be refused, and
    no file may be created.
    """
    here = at.bed.root / "here"
    here.mkdir()
    with at.ended():
        at.serve()
        at.must(at.run("snapshot", "take", JOB))
        names = {"series": f"{JOB}/totals", "job": f"{ROOT}/chaos/jobs/ledgers.py:ledgers"}
        for words in chance.sample(COMMANDS, 5):
            url = chance.choice(URLS)
            answer = at.run(*(word.format(url=url, **names) for word in words), cwd=here)
            at.did.append(" ".join(words).format(url=url, **names))
            at.refused(words[0], answer, f"{url.partition(':')[0]}:// is not supported")
        variable, url = chance.choice(VARIABLES), chance.choice(URLS)
        answer = at.run("jobs", extra={f"STREAMKEEPER_{variable}": url}, cwd=here)
        at.did.append(f"STREAMKEEPER_{variable}={url}")
        at.refused("jobs", answer, f"STREAMKEEPER_{variable} {url}")
        at.damage += [f"{each.relative_to(here)} was made" for each in sorted(here.rglob("*"))]
