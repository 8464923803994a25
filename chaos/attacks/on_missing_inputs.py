"""Attacks on the input of a query: files that are missing in HDFS, and files that arrive with old modification
times.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from chaos.attacks.attack import Attack
from chaos.cases import JOB
from harness.hdfs_server import hdfs_server
from harness.producer import EVENTS, SALES, next_number
from harness.waiting import wait_for
from streamkeeper.checkpoints.facts import offsets_at
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.positions import local_path
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.registry.driver_control import Control

_DAY_S = 86_400.0
_LOOKS_S = 90.0
"""The most seconds until a driver has counted the files; it checks its sources once a minute."""


def hdfs_input(at: Attack, chance: random.Random) -> None:
    """Delete a file of an open batch from HDFS: no start may skip it, and each query reads it once it is back."""
    with hdfs_server(at.bed.root / "hdfs") as server, patch.dict(os.environ, server.environment):
        url = f"{server.url}/input"
        with _copied(at.bed.input, tree_at(url)), at.ended():
            at.serve(input=url)
            at.more()
            at.kill()
            query = at.way("totals", "copies", "audit")
            gone = _reopen_last_batch(at.checkpoint(query), chance)
            folder, _, name = gone.rpartition("/")
            kept = tree_at(folder).read(name)
            tree_at(folder).delete([name])
            at.did.append(f"{name} of an open batch of {query} is gone from HDFS")
            found = at.run("recover", JOB)
            if "files of open batch" not in found.stdout or name not in found.stdout:
                at.damage.append(f"the diagnosis does not name it: {found.stdout.strip()[-300:]}")
            answer = at.run("start", JOB) if at.way(True, False) else at.ask(input=url)
            at.refused("a start without it", answer, "files of open batch", name)
            tree_at(folder).create(name, [kept])
            at.go_on(input=url)


def old_files(at: Attack, chance: random.Random) -> None:
    """Add files that keep old modification times, which Spark never reads: they are listed, and read once they are
    touched.
    """
    with at.ended():
        at.serve()
        at.more()
        late = sorted(_arrive_late(at.bed.input, chance, at.way(1, 2, 3, 4)))
        at.did.append(f"{len(late)} files arrive with old times")
        listed = at.must(at.run("old-input", JOB)).stdout.split()
        at.told.append(f"listed: {len(listed)}")
        if sorted({*listed}) != late:
            at.damage.append(f"listed are {listed}, late are {late}")
        if at.way(True, False):
            wait_for("the driver to count them", lambda: _counted(at) == len(late), timeout_s=_LOOKS_S, poll_s=1.0)
            said = at.run("watch", "--once", "--dry-run").stdout
            if "input-too-old" not in said:
                at.damage.append(f"no incident names them: {said.strip()[-300:]}")
        for path in listed:
            os.utime(path)
        at.more()


@contextmanager
def _copied(input_: Path, tree: Tree) -> Iterator[None]:
    """Copy every input file once, as a whole, as soon as it arrives."""
    over, done = threading.Event(), set[str]()

    def copy() -> None:
        while not over.wait(0.2):
            for name in (SALES, EVENTS):
                for path in sorted((input_ / name).glob("*.csv")):
                    key = f"{name}/{path.name}"
                    if key not in done:
                        tree.create(key, [path.read_bytes()])
                        done.add(key)

    copying = threading.Thread(target=copy, daemon=True)
    for name in (SALES, EVENTS):
        # A source's directory has to be there before its query is built.
        tree.create(f"{name}/_begun", [b""])
    copying.start()
    try:
        yield
    finally:
        over.set()
        copying.join()


def _reopen_last_batch(directory: Path, chance: random.Random) -> str:
    """Delete the newest commit, as a crash before it would, and return one of the files that its batch reads."""
    tree = LocalTree(directory)
    newest = last_committed(tree)
    assert newest is not None
    files = [local_path(url) for source in offsets_at(tree, newest) for url in source.files]
    (directory / "commits" / str(newest)).unlink()
    (directory / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    return chance.choice(files)


def _arrive_late(input_: Path, chance: random.Random, count: int) -> Iterator[str]:
    """Move files that were written days ago into the input, as ``rsync -a`` does, and yield their paths."""
    first = next_number(input_)
    for number in range(first, first + count):
        ids = [f"e{number:06d}-{row:03d}" for row in range(5)]
        lines = {
            SALES: [f"{event},c00{chance.randrange(9)},{chance.randrange(1, 1000)}" for event in ids],
            EVENTS: [f"{event},c00{chance.randrange(9)},sale,1" for event in ids],
        }
        for folder, rows in lines.items():
            draft, target = input_ / ".drafts" / f"late-{folder}", input_ / folder / f"{number:06d}.csv"
            draft.write_text("\n".join(rows) + "\n")
            age_s = chance.uniform(7.5, 400) * _DAY_S
            os.utime(draft, (draft.stat().st_mtime - age_s,) * 2)
            draft.rename(target)
            yield str(target)


def _counted(at: Attack) -> int:
    """Return the number of too old files that the driver's status reports for ``totals`` and ``copies``."""
    status = Control(at.bed.installation.store, JOB, at.state().serving_instance).read_status()
    queries = status.queries if status is not None else {}
    found = {name: sum(each.too_old_files or 0 for each in query.signals.sources) for name, query in queries.items()}
    return found.get("totals", 0) + found.get("copies", 0)
