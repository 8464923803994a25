"""``python -m bench.bad_inputs``: what a person sees who gives a bad input, at every door, and what it leaves behind.

A fresh installation with a real Airflow, a real S3 server and a job that serves; each input is given to the command
line and to Airflow's REST interface, by which its form goes too. One line has to be told, without a traceback, and
nothing may be left: no file, no entry of a journal, no process; Airflow's own run and log apart.

--doors cli     only these doors (cli,rest); without rest no Airflow is started
--only TEXT     only inputs with that text in their name
--results FILE  a JSON line for each input and door (bench/results/bad-inputs.jsonl)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from bench.bad_inputs.inputs import Bad, bad_inputs
from bench.bad_inputs.stage import Answer, Stage, find_left, fresh_stage
from bench.bed import ROOT
from bench.matrix.record import read_commit

_LONGEST = 400
_SETTLE_S = 10.0


def ask(stage: Stage, bad: Bad, door: str) -> tuple[Answer, list[str]]:
    """The answer of one door, and what is left behind."""
    with (bad.around or (lambda _: nullcontext()))(stage):
        before = stage.look()
        if door == "cli":
            answer = stage.by_command(bad.cli, bad.extra)
        else:
            assert bad.rest is not None
            dag, conf = bad.rest
            body = conf if isinstance(conf, bytes) else json.dumps({"logical_date": None, "conf": conf}).encode()
            answer = stage.by_rest(dag, body)
        return answer, _settled(stage, before)


def _settled(stage: Stage, before: dict[str, tuple[int, int, int]]) -> list[str]:
    """What is left once processes that are ending have ended."""
    deadline = time.monotonic() + _SETTLE_S
    while left := find_left(before, stage.look()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return left


def is_good(answer: Answer, left: list[str], door: str) -> bool:
    """Whether it was refused, in one line and without a traceback, with nothing left.

    Airflow's own check of a form's fields tells the rule below its line.
    """
    refused = answer.ended not in ("exit 0", "run success")
    one_line = answer.lines == 1 or (door == "rest" and answer.ended == "HTTP 400")
    return refused and one_line and bool(answer.told) and not answer.traceback and not left


def ask_all(stage: Stage, doors: list[str], only: str) -> Iterator[dict[str, object]]:
    """A line for each input and door."""
    commit = read_commit()
    for bad in bad_inputs(stage):
        for door in doors:
            if only not in bad.name or not (bad.cli if door == "cli" else bad.rest):
                continue
            answer, left = ask(stage, bad, door)
            yield {
                "commit": commit,
                "input": bad.name,
                "door": door,
                "ended": answer.ended,
                "told": answer.told[:_LONGEST].replace(str(stage.places.root), "…"),
                "lines": answer.lines,
                "traceback": answer.traceback,
                "left": left,
                "good": is_good(answer, left, door),
            }


def main() -> int:
    """1 when an input was taken, was not told in one line, or has left something."""
    parser = argparse.ArgumentParser(prog="bench.bad_inputs", description="Bad inputs, at every door.")
    parser.add_argument("--doors", default="cli,rest")
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/bad-inputs.jsonl")
    chosen = parser.parse_args()
    doors, lines = chosen.doors.split(","), []
    with fresh_stage(ROOT / "build/bad-inputs") as stage:
        if "rest" in doors:
            stage.start_airflow()
        for line in ask_all(stage, doors, chosen.only):
            lines.append(line)
            mark = " " if line["good"] else "!"
            print(f"{mark} {line['input']} [{line['door']}] {line['ended']}: {line['told']}", flush=True)
            if not line["good"]:
                print(f"    lines {line['lines']}, traceback {line['traceback']}, left {line['left']}", flush=True)
    chosen.results.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
    wrong = sum(not line["good"] for line in lines)
    print(f"{len(lines)} answers to {len({line['input'] for line in lines})} bad inputs, {wrong} not as they should be")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
