"""``python -m bench.check``: time the whole compatibility check, started cold, against a bare PySpark session that runs
one batch.

Both run the same query over the same checkpoint, alternately. Then further candidates are checked in one session, and
the check is repeated on a checkpoint of few and of many batches. Goals: at most 1.1 times the bare start, at most 1.2 s
per further candidate, and a time that does not grow with the number of batches.

``--candidates 200`` instead checks that many candidates with Python functions in one session and records their seconds
and the memory that the processes hold. Goals: at most 1.2 s per further candidate, and memory that stays flat after the
first quarter.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.report import write_report
from harness.places import ROOT

GOAL_COLD = 1.1
GOAL_FURTHER_S = 1.2
GOAL_GROWTH = 1.15
"""The highest allowed ratio of memory in the last quarter of the candidates to memory in the second quarter."""

JOB = """
from pyspark.sql import functions as F
from streamkeeper import ForeachBatch, Param, Query, streaming_job

def write(batch, context):
    batch.collect()

@streaming_job(name="totals", params={"input": Param(str)})
def totals(spark, params):
    rows = spark.readStream.schema("k string, x long").option("maxFilesPerTrigger", 1).json(params["input"])
    sums = rows.groupBy("k").agg(F.sum("x").alias("s"))
    yield Query("totals", sums, sink=ForeachBatch(write), output_mode="update", trigger="availableNow")
"""

BARE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pyspark.sql import SparkSession, functions as F
from streamkeeper.driver.session import session_conf
builder = SparkSession.builder
for key, value in session_conf({}, Path(sys.argv[2]), "bare").items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
rows = spark.readStream.schema("k string, x long").option("maxFilesPerTrigger", 1).json(sys.argv[4])
query = rows.groupBy("k").agg(F.sum("x").alias("s")).writeStream.outputMode("update")
if sys.argv[5] == "once":
    query = query.trigger(once=True)
else:
    query = query.trigger(availableNow=True)
query.option("checkpointLocation", sys.argv[3]).foreachBatch(
    lambda batch, _: batch.write.format("noop").mode("overwrite").save()
).start().awaitTermination()
"""


class CheckBed:
    """A job, renamed candidates of it, its input, and a checkpoint with a given number of batches."""

    def __init__(self, root: Path, batches: int) -> None:
        self.root = root
        self.input = root / "in"
        self.checkpoint = root / "v0001"
        self.candidates = [root / f"candidate{number}" / "job.py" for number in range(6)]
        self.input.mkdir(parents=True)
        for number in range(batches):
            file = self.input / f"{number:05d}.json"
            file.write_text("\n".join(json.dumps({"k": f"k{key}", "x": number}) for key in range(10)))
            os.utime(file, (1_700_000_000 + number,) * 2)
        (root / "job.py").write_text(JOB)
        (root / "bare.py").write_text(BARE)
        for number, each in enumerate(self.candidates):
            each.parent.mkdir()
            each.write_text(JOB.replace('"s"', f'"s{number}"'))
        self.run_bare(self.checkpoint, how="all")

    def run_bare(self, checkpoint: Path, *, how: str = "once") -> float:
        """Return the seconds that a bare session takes to run the query from a checkpoint."""
        scratch = self.root / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        words = [ROOT / "plugins", scratch, checkpoint, self.input, how]
        return _timed([sys.executable, str(self.root / "bare.py"), *map(str, words)])

    def run_bare_once(self) -> float:
        """Replay the last batch from a copy of the checkpoint and return its seconds."""
        copy = self.root / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.checkpoint, copy)
        newest = max(int(each.name) for each in (copy / "commits").iterdir() if each.name.isdecimal())
        for name in (str(newest), f".{newest}.crc"):
            (copy / "commits" / name).unlink(missing_ok=True)
        return self.run_bare(copy)

    def check(self) -> float:
        """Return the seconds of the whole check command, started cold."""
        words = ["--deployed", f"{self.root / 'job.py'}:totals", "--candidate", f"{self.candidates[0]}:totals"]
        params = json.dumps({"input": str(self.input)})
        command = [*_CHECK, *words, "--checkpoint", str(self.checkpoint), "--params", params]
        return _timed(command)

    def further(self) -> list[float]:
        """Return the seconds of each candidate after the first, all checked in one session."""
        file = self.root / "requests.jsonl"
        file.write_text("".join(json.dumps(self._request(each)) + "\n" for each in self.candidates))
        done = subprocess.run(
            [*_CHECK, "--batch", str(file)], env=_ENVIRONMENT, capture_output=True, text=True, check=True
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if any(each.get("verdict") != "RESUME" for each in answers):
            raise SystemExit(f"not resumed: {done.stdout}")
        return [float(each["seconds"]["total"]) for each in answers[1:]]

    def campaign(self, count: int) -> dict[str, list[float]]:
        """Return the seconds, the MB of memory and the number of Python processes after each of many candidates with a
        Python function.
        """
        file = self.root / "campaign.jsonl"
        with file.open("w") as requests:
            for number in range(count):
                candidate = self.root / f"campaign{number}" / "job.py"
                candidate.parent.mkdir()
                function = f'F.sum(F.udf(lambda x: x + {number}, "long")("x"))'
                candidate.write_text(JOB.replace('F.sum("x")', function))
                requests.write(json.dumps(self._request(candidate)) + "\n")
        found: dict[str, list[float]] = {"seconds": [], "memory_mb": [], "python_processes": []}
        command = [*_CHECK, "--batch", str(file)]
        with subprocess.Popen(command, env=_ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout is not None
            for line in running.stdout:
                answer = json.loads(line)
                if answer.get("verdict") != "SWITCH":
                    raise SystemExit(f"not a switch: {answer}")
                processes = _tree(running.pid)
                found["seconds"].append(float(answer["seconds"]["total"]))
                found["memory_mb"].append(round(sum(each.rss for each in processes) / 1e6))
                found["python_processes"].append(sum(each.python for each in processes))
        return found

    def _request(self, candidate: Path) -> dict[str, Any]:
        return {
            "deployed": f"{self.root / 'job.py'}:totals",
            "candidate": f"{candidate}:totals",
            "checkpoint": str(self.checkpoint),
            "params": {"input": str(self.input)},
        }


class _Process(NamedTuple):
    rss: int
    python: bool


def _tree(pid: int) -> list[_Process]:
    found = []
    for each in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.Error):
            found.append(_Process(each.memory_info().rss, "pyspark.daemon" in each.cmdline()))
    return found


_CHECK = [sys.executable, "-m", "streamkeeper.cli.main", "check"]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}


def main() -> int:
    """Run the bench; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(prog="bench.check", description="The compatibility check against a bare start.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--batches", default="10,1000", help="few and many")
    parser.add_argument("--out", type=Path, help="folder of the report")
    parser.add_argument("--candidates", type=int, default=0, help="only that many candidates in one session")
    chosen = parser.parse_args()
    if chosen.candidates:
        return _campaign(chosen.candidates, chosen.out)
    few, many = (int(each) for each in chosen.batches.split(","))
    with tempfile.TemporaryDirectory(prefix="streamkeeper-bench-check-") as folder:
        beds = {batches: CheckBed(Path(folder) / str(batches), batches) for batches in (few, many)}
        times: dict[str, list[float]] = {"check": [], "bare": []}
        for number in range(chosen.pairs):
            for name in ("check", "bare") if number % 2 == 0 else ("bare", "check"):
                times[name].append(beds[few].check() if name == "check" else beds[few].run_bare_once())
                print(f"  pair {number + 1}: {name} {times[name][-1]:.2f} s", flush=True)
        further = {batches: bed.further() for batches, bed in beds.items()}
    medians = {name: statistics.median(each) for name, each in times.items()}
    ratio = round(medians["check"] / medians["bare"], 3)
    further_median_s = round(statistics.median(further[few]), 3)
    figures = {
        "cold": {**times, "median": medians, "ratio": ratio},
        "further_s": {str(batches): each for batches, each in further.items()},
        "further_median_s": further_median_s,
        "many_to_few": round(statistics.median(further[many]) / statistics.median(further[few]), 3),
    }
    print(json.dumps(figures, indent=1))
    print(f"written to {write_report('check', figures, into=chosen.out)}")
    return int(ratio > GOAL_COLD or further_median_s > GOAL_FURTHER_S)


def _campaign(count: int, out: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="streamkeeper-bench-check-") as folder:
        found = CheckBed(Path(folder), 10).campaign(count)
    memory, quarter = found["memory_mb"], max(1, count // 4)
    growth = statistics.median(memory[-quarter:]) / statistics.median(memory[quarter : 2 * quarter])
    median = statistics.median(found["seconds"][1:])
    most = max(found["python_processes"])
    figures = {**found, "further_median_s": round(median, 3), "growth": round(growth, 3), "most_processes": most}
    print(
        {key: figures[key] for key in ("further_median_s", "growth", "most_processes")}, memory[::quarter], memory[-1]
    )
    print(f"written to {write_report('check-candidates', figures, into=out)}")
    return int(median > GOAL_FURTHER_S or growth > GOAL_GROWTH or most > 2)


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}: {done.stdout[-500:]} {done.stderr[-1500:]}")
    return time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())
