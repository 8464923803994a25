"""``python -m demo [kafka|lakehouse|storage|cluster|up|down]``: the demo, its variants, or a system that stays up."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from demo.scenario import run_demo
from demo.show import Screen
from demo.standing import bring_up, take_down
from harness.places import ROOT, Places
from harness.processes import PRIVATE
from streamkeeper.errors import InvalidInput, OperationRefused, StreamkeeperError

_USAGE = "use `python -m demo`, and `kafka`, `lakehouse`, `storage`, `cluster`, `up` or `down` behind it"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 success, 1 a step failed or the ledger is not clean, 2 wrong usage, 130 interrupted."""
    screen = Screen()
    _end_politely()
    build = ROOT / "build"
    try:
        match list(arguments):
            case []:
                with only_one(build / "demo.lock"):
                    return 0 if run_demo(Places(build / "demo"), screen) else 1
            case ["kafka"]:
                from demo.kafka.scenario import run_kafka_demo

                with only_one(build / "demo-kafka.lock"):
                    return 0 if run_kafka_demo(Places(build / "demo-kafka"), screen) else 1
            case ["storage"]:
                from demo.storage.scenario import run_storage_demo

                with only_one(build / "demo-storage.lock"):
                    return 0 if run_storage_demo(Places(build / "demo-storage"), screen) else 1
            case ["lakehouse"]:
                from demo.lakehouse.scenario import run_lakehouse_demo

                with only_one(build / "demo-lakehouse.lock"):
                    return 0 if run_lakehouse_demo(Places(build / "demo-lakehouse"), screen) else 1
            case ["cluster"]:
                from demo.cluster.scenario import run_cluster_demo

                with only_one(build / "demo-cluster.lock"):
                    return 0 if run_cluster_demo(Places(build / "demo-cluster"), screen) else 1
            case ["up"]:
                with only_one(build / "up.lock"):
                    bring_up(Places(build / "up"), screen, port=_wanted_port())
                return 0
            case ["down"]:
                with only_one(build / "up.lock"):
                    take_down(Places(build / "up"), screen)
                return 0
            case _:
                screen.tell(f"[red]unknown: {' '.join(arguments)}[/] ({_USAGE})")
                return 2
    except StreamkeeperError as error:
        screen.tell(f"[red]{type(error).__name__}[/]: {error}")
        return 1
    except KeyboardInterrupt:
        screen.tell("interrupted; everything that was started is stopped")
        return 130


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold the lock while the body runs; raises OperationRefused while another process holds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperationRefused(f"another demo holds {lock}", hint="wait for it, or interrupt it") from None
        yield


def _wanted_port() -> int:
    text = os.environ.get("STREAMKEEPER_PORT", "18080")
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise InvalidInput(f"STREAMKEEPER_PORT={text} is not a port", hint="use a number from 1 to 65535")
    return int(text)


def _end_politely() -> None:
    """Turn SIGINT, SIGTERM and SIGHUP into one KeyboardInterrupt; ignore further signals during the cleanup."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupt)


if __name__ == "__main__":
    os.umask(PRIVATE)
    sys.exit(main(sys.argv[1:]))
