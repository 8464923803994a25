"""``python -m bench.checkpoint_races``: test whether two writers can both win the same checkpoint file on S3.

A real S3 server runs behind a proxy that answers some requests with 503 and drops some answers. In each round two
writers, each with a checkpoint file manager of its own, write the same ``offsets/N`` and close it at the same time.
``two_won`` counts the rounds in which both writers were informed that they had won; ``told_wrong`` counts the writers
that were informed that the other was first although the file is their own, or that they had won although it is not;
``nobody`` counts the rounds without a winner.

Two other managers race in fewer rounds as controls: ``sparks``, Spark's own, which lets both writers win, and
``hadoops``, a conditional PUT alone, which misinforms the winner when its answer is lost. Their races continue until
that mistake has happened, for at most ten times as many rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError

from bench.report import write_report
from harness.fault_proxy import FaultProxy, fault_proxy
from harness.s3_server import FIRST_BUCKET, s3_server
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.jvm.create_only import MANAGER, OURS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANAGERS = {
    "ours": OURS,
    "hadoops": "",
    "sparks": "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager",
}
_MISTAKES = {"sparks": "two_won", "hadoops": "told_wrong"}
"""Maps a control to the figure that shows its mistake."""
_MOST = 10
_WRITERS = 2
_PATIENCE = {
    # Ten tries with half a second between them are the default: a round would wait for seconds.
    "spark.hadoop.fs.s3a.retry.interval": "20ms",
    "spark.hadoop.fs.s3a.retry.throttle.interval": "20ms",
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
}


def main() -> int:
    """Run the races, print and write the report; return 1 when our manager let both writers win or misinformed one."""
    parser = argparse.ArgumentParser(prog="bench.checkpoint_races", description="Races for a file on S3.")
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--refused", type=float, default=0.05, help="share of requests that are answered 503")
    parser.add_argument("--lost", type=float, default=0.1, help="share of writes whose answer gets lost")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--controls", type=int, default=20, help="least rounds of each of the other two managers")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="checkpoint-races-"))
    try:
        (scratch / "s3").mkdir()
        with (
            s3_server(scratch / "s3", volume_mb=64, volumes=10) as server,
            fault_proxy(server.endpoint, seed=chosen.seed) as proxy,
        ):
            os.environ |= {**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}
            figures = _races(proxy, scratch, chosen)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('checkpoint-races', figures, into=chosen.out)}")
    ours = figures["ours"]
    return 1 if ours["two_won"] or ours["told_wrong"] else 0


def _races(proxy: FaultProxy, scratch: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    os.environ["STREAMKEEPER_CHECKPOINTS"] = f"s3a://{FIRST_BUCKET}/checkpoints"
    conf = {**session_conf({}, scratch, "races"), **_PATIENCE}
    session = start_session(conf, {}, scratch, [])
    figures: dict[str, Any] = {"seed": chosen.seed, "refused": chosen.refused, "lost": chosen.lost}
    try:
        spark = session.spark
        spark.sparkContext.setLogLevel("OFF")
        for name, manager in MANAGERS.items():
            proxy.refuse_share = proxy.lose_share = 0.0
            race = _Race(spark, manager, f"s3a://{FIRST_BUCKET}/{name}")
            proxy.refuse_share, proxy.lose_share = chosen.refused, chosen.lost
            before = Counter(proxy.made)
            rounds = chosen.rounds if name == "ours" else chosen.controls
            for number in range(rounds):
                race.run(number, _stored(proxy, f"{name}/{number}"))
            while name in _MISTAKES and not race.figures()[_MISTAKES[name]] and rounds < _MOST * chosen.controls:
                race.run(rounds, _stored(proxy, f"{name}/{rounds}"))
                rounds += 1
            figures[name] = {"rounds": rounds, "faults": dict(proxy.made - before), **race.figures()}
    finally:
        session.kill()
    return figures


class _Race:
    """Rounds in which two writers close the same new file at the same time, each over a file system of its own."""

    def __init__(self, spark: SparkSession, manager: str, root: str) -> None:
        jvm: Any = spark._jvm
        state: Any = spark._jsparkSession.sessionState()
        self._path = jvm.org.apache.hadoop.fs.Path
        self._root = root
        conf = state.newHadoopConf()
        conf.set(MANAGER, manager)
        conf.set("fs.s3a.impl.disable.cache", "true")
        create = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create
        self._managers = [create(self._path(root), conf) for _ in range(_WRITERS)] if manager else []
        self._systems = [self._path(root).getFileSystem(conf) for _ in range(_WRITERS)]
        self._systems[0].mkdirs(self._path(root))
        self._won: Counter[int] = Counter()
        self._wrong = 0
        self._errors: Counter[str] = Counter()
        self._close_ms: list[float] = []

    def run(self, number: int, stored: Callable[[], bytes | None]) -> None:
        """Run one round; ``stored`` returns what the file holds at the end."""
        told: dict[int, str] = {}
        together = threading.Barrier(_WRITERS)

        def write(writer: int) -> None:
            try:
                stream = self._created(writer, self._path(f"{self._root}/{number}"))
                stream.write(bytearray(b"%d" % writer))
                together.wait(60)
                began = time.perf_counter()
                stream.close()
                self._close_ms.append(1000 * (time.perf_counter() - began))
                told[writer] = "won"
            except Exception as error:
                together.abort()
                there = any(sign in str(error) for sign in ("FileAlreadyExistsException", "Status Code: 412"))
                told[writer] = "lost" if there else _name_of(error)

        writers = [threading.Thread(target=write, args=(writer,)) for writer in range(_WRITERS)]
        for thread in writers:
            thread.start()
        for thread in writers:
            thread.join()
        holds = stored()
        self._won[sum(answer == "won" for answer in told.values())] += 1
        for writer, answer in told.items():
            own = holds == b"%d" % writer
            self._wrong += (answer == "won" and not own) or (answer == "lost" and own)
            if answer not in ("won", "lost"):
                self._errors[answer] += 1

    def _created(self, writer: int, path: Any) -> Any:
        if self._managers:
            return self._managers[writer].createAtomic(path, False)
        builder = self._systems[writer].createFile(path).create().recursive().overwrite(True)
        return builder.must("fs.option.create.conditional.overwrite", True).build()

    def figures(self) -> dict[str, Any]:
        return {
            "one_won": self._won[1],
            "two_won": self._won[2],
            "nobody": self._won[0],
            "told_wrong": self._wrong,
            "errors": dict(self._errors),
            "close_ms": round(statistics.median(self._close_ms), 1) if self._close_ms else None,
        }


def _name_of(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if "Exception" in line]
    return lines[0].split(":")[1].strip() if lines and ":" in lines[0] else type(error).__name__


def _stored(proxy: FaultProxy, key: str) -> Callable[[], bytes | None]:
    """Return a function that reads an object from the server directly, bypassing the proxy."""
    host, port = proxy.target
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}")

    def ask() -> bytes | None:
        try:
            content: bytes = client.get_object(Bucket=FIRST_BUCKET, Key=key)["Body"].read()
        except ClientError:
            return None
        return content

    return ask


if __name__ == "__main__":
    raise SystemExit(main())
