"""An installation whose input is a topic of a real Kafka broker, which is killed, frozen and restarted on the same
directory.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.bed import COMMAND, Bed
from harness.kafka_broker import KafkaBroker, launch_broker, make_broker, wait_for_broker
from harness.places import ROOT
from harness.topic_feed import PARTITIONS, Feed

TOPIC = "events"
JOB_FILE = ROOT / "chaos/jobs/topic_ledgers.py"


class MortalBroker:
    """The process of the broker; ``start`` returns once it answers, and a restart keeps its ports and its records."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self.client: KafkaBroker = make_broker(home)

    def start(self) -> None:
        """Start the broker on its directory; raises InvalidInput or StillWaiting when it does not come up."""
        process = self._process = launch_broker(self._home)
        wait_for_broker(self.client, self._home / "log", lambda: process.poll() is None)

    def kill(self) -> None:
        """Send SIGKILL to the broker, also while it is frozen."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def die_for(self, away_s: float) -> None:
        """Kill the broker with SIGKILL, and restart it after this many seconds."""
        self.kill()
        time.sleep(away_s)
        self.start()

    def freeze_for(self, away_s: float) -> None:
        """Freeze the broker with SIGSTOP for this many seconds: its connections stay open, but it does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(away_s)
        finally:
            self._process.send_signal(signal.SIGCONT)


class BrokerBed(Bed):
    """A bed with a broker; ``root/broker`` is the broker's directory, and ``root/input/events.jsonl`` contains every
    event that was sent, in order.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root, [])
        # The job's name and the file's are those of the campaign's other job.
        shutil.copy(JOB_FILE, self.jobs / "ledgers.py")
        self.sent = self.input / "events.jsonl"
        self.unclear: list[str] = []
        self.broker = MortalBroker(root / "broker")
        self._feed = Feed(self.broker.client.servers, TOPIC, self.sent)

    def open(self) -> None:
        """Start the broker and create the topic."""
        self.broker.start()
        self.broker.client.create_topic(TOPIC, partitions=PARTITIONS)

    def command(
        self, *arguments: str, extra: dict[str, str] | None = None, by: Sequence[str] = COMMAND, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command; an answer with a traceback is recorded in ``unclear``."""
        run = super().command(*arguments, extra=extra, by=by, cwd=cwd)
        if "Traceback" in run.stderr:
            self.unclear.append(f"{arguments[0]} answered with a traceback: {run.stderr.strip()[-300:]}")
        return run

    def start_producer(self, *, rows: int = 5, every_s: float = 0.7, seed: int = 1, customers: int = 10) -> None:
        """Start sending events; there is only one stream of them, whatever the seed."""
        if self._producer is not None:
            return
        self._pause.clear()
        pace = {"rows": rows, "every_s": every_s, "stop": self._pause}
        self._producer = threading.Thread(target=self._feed.run, kwargs=pace, daemon=True)
        self._producer.start()

    def check_delivered(self) -> None:
        """Raise RuntimeError when the broker is not back, or has not acknowledged every event."""
        if not self.broker.client.answers():
            raise RuntimeError("the broker has not come back: there is nothing to compare")
        if self._feed.undelivered:
            raise RuntimeError(f"{self._feed.undelivered} of the events were never acknowledged")

    def close(self) -> None:
        """Stop the drivers, then the broker."""
        try:
            super().close()
        finally:
            self.broker.kill()


@contextmanager
def fresh_broker_bed(root: Path) -> Iterator[BrokerBed]:
    """Provide a bed in an empty directory with a running broker, and close it at the end, also on Ctrl-C."""
    shutil.rmtree(root, ignore_errors=True)
    bed = BrokerBed(root)
    try:
        bed.open()
        yield bed
    finally:
        bed.close()
