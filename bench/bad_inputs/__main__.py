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
from contextlib import ExitStack, nullcontext
from pathlib import Path

from bench.bad_inputs.inputs import Bad, bad_inputs
from bench.bad_inputs.stage import Answer, Stage, find_left, fresh_stage
from bench.bed import ROOT
from bench.matrix.record import read_commit

_LONGEST = 400
_SETTLE_S = 10.0


def ask_command(stage: Stage, bad: Bad) -> tuple[Answer, list[str]]:
    """What the command has told, and what is left behind."""
    with (bad.around or (lambda _: nullcontext()))(stage):
        before = stage.look()
        answer = stage.by_command(bad.cli, bad.extra)
        return answer, _settled(stage, before)


def ask_airflow(stage: Stage, inputs: list[Bad]) -> tuple[list[Answer], list[str]]:
    """What Airflow has answered to each, or told by its run; and what all of them together have left behind."""
    with ExitStack() as held:
        for around in {id(bad.around): bad.around for bad in inputs if bad.around}.values():
            held.enter_context(around(stage))
        before = stage.look()
        started = [(bad.rest[0], stage.trigger(bad.rest[0], _body(bad.rest[1]))) for bad in inputs if bad.rest]
        answers = [stage.by_run(dag, found) if isinstance(found, str) else found for dag, found in started]
        return answers, _settled(stage, before)


def _body(conf: object) -> bytes:
    return conf if isinstance(conf, bytes) else json.dumps({"logical_date": None, "conf": conf}).encode()


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
    refused = answer.ended not in ("exit 0", "run success") and not answer.ended.startswith("HTTP 5")
    one_line = answer.lines == 1 or (door == "rest" and answer.ended == "HTTP 400")
    return refused and one_line and bool(answer.told) and not answer.traceback and not left


def ask_all(stage: Stage, doors: list[str], only: str) -> Iterator[dict[str, object]]:
    """A line for each input and door."""
    commit, inputs = read_commit(), [bad for bad in bad_inputs(stage) if only in bad.name]

    def line_of(bad: Bad, door: str, answer: Answer, left: list[str]) -> dict[str, object]:
        told = answer.told[:_LONGEST].replace(str(stage.places.root), "…").replace(str(Path.home()), "~")
        seen = {"ended": answer.ended, "told": told, "lines": answer.lines, "traceback": answer.traceback, "left": left}
        return {"commit": commit, "input": bad.name, "door": door, **seen, "good": is_good(answer, left, door)}

    for bad in inputs if "cli" in doors else ():
        if bad.cli:
            yield line_of(bad, "cli", *ask_command(stage, bad))
    by_rest = [bad for bad in inputs if "rest" in doors and bad.rest]
    if by_rest:
        stage.start_airflow()
    for group in ([bad for bad in by_rest if not bad.around], *([bad] for bad in by_rest if bad.around)):
        answers, left = ask_airflow(stage, group)
        for bad, answer in zip(group, answers, strict=True):
            yield line_of(bad, "rest", answer, left)


def main() -> int:
    """1 when an input was taken, was not told in one line, or has left something."""
    parser = argparse.ArgumentParser(prog="bench.bad_inputs", description="Bad inputs, at every door.")
    parser.add_argument("--doors", default="cli,rest")
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/bad-inputs.jsonl")
    chosen = parser.parse_args()
    lines = []
    with fresh_stage(ROOT / "build/bad-inputs") as stage, chosen.results.open("w") as results:
        for line in ask_all(stage, chosen.doors.split(","), chosen.only):
            lines.append(line)
            results.write(f"{json.dumps(line, ensure_ascii=False)}\n")
            results.flush()
            mark = " " if line["good"] else "!"
            print(f"{mark} {line['input']} [{line['door']}] {line['ended']}: {line['told']}", flush=True)
            if not line["good"]:
                print(f"    lines {line['lines']}, traceback {line['traceback']}, left {line['left']}", flush=True)
    wrong = sum(not line["good"] for line in lines)
    print(f"{len(lines)} answers to {len({line['input'] for line in lines})} bad inputs, {wrong} not as they should be")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
