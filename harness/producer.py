"""A process that continuously writes sales: one CSV file after another, for both jobs, each moved into place as a
whole.

``python -m harness.producer ROOT [--rows N] [--every-s S] [--seed K]`` writes below ``ROOT/sales`` (``event_id,
customer, amount``) and ``ROOT/events`` (``event_id, customer, kind, amount``) until it receives SIGTERM; it stops after
a complete file. After SIGUSR1 it also writes refunds, a kind that no earlier event has.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import random
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

SALES, EVENTS = "sales", "events"
_DRAFTS = ".drafts"
_KINDS = ("sale", "return", "visit")
REFUND = "refund"


def write_whole(folder: Path, name: str, rows: Sequence[Sequence[object]]) -> None:
    """Write one CSV file without a header; a reader of ``folder`` sees either the whole file or none."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    draft = folder.parent / _DRAFTS / f"{folder.name}-{name}"
    with draft.open("w") as output:
        output.write(text.getvalue())
        output.flush()
        os.fsync(output.fileno())
    draft.rename(folder / name)


def prepare(root: Path) -> None:
    """Create the folders, which the jobs need before the first file is written."""
    for name in (SALES, EVENTS, _DRAFTS):
        (root / name).mkdir(parents=True, exist_ok=True)


def next_number(root: Path) -> int:
    """Return a number above that of any file in either folder, because a producer that was killed between its two
    writes leaves a file in one folder only.
    """
    return max((int(file.stem) for name in (SALES, EVENTS) for file in (root / name).glob("*.csv")), default=-1) + 1


def produce(
    root: Path,
    *,
    rows: int,
    every_s: float,
    seed: int,
    customers: int,
    stop: threading.Event,
    refunds: threading.Event | None = None,
) -> int:
    """Write files until ``stop`` is set, with event ids that continue those of the existing files; return the number of
    events written.

    Once ``refunds`` is set, the first event of each file is a refund.
    """
    prepare(root)
    chance = random.Random(seed)
    number = next_number(root)
    written = 0
    while not stop.is_set():
        ids = [f"e{number:06d}-{row:03d}" for row in range(rows)]
        buyers = [f"c{chance.randrange(customers):03d}" for _ in ids]
        amounts = [chance.randrange(1, 1000) for _ in ids]
        kinds = [chance.choice(_KINDS) for _ in ids]
        if refunds is not None and refunds.is_set():
            kinds[0] = REFUND
        name = f"{number:06d}.csv"
        write_whole(root / EVENTS, name, list(zip(ids, buyers, kinds, amounts, strict=True)))
        write_whole(root / SALES, name, list(zip(ids, buyers, amounts, strict=True)))
        written += rows
        number += 1
        stop.wait(every_s)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Write files until SIGTERM or SIGINT, and print the number of events."""
    parser = argparse.ArgumentParser(prog="harness.producer", description="Keep writing sales files.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--every-s", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--customers", type=int, default=25)
    chosen = parser.parse_args(arguments)
    stop, refunds = threading.Event(), threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    def refund(_number: int, _frame: FrameType | None) -> None:
        refunds.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGUSR1, refund)
    written = produce(
        chosen.root,
        rows=chosen.rows,
        every_s=chosen.every_s,
        seed=chosen.seed,
        customers=chosen.customers,
        stop=stop,
        refunds=refunds,
    )
    print(f"{written} events written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
