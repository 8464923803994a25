"""``python -m conformance.bad_inputs``: what a person sees after entering a bad input at any door, and what it leaves
behind.

The bench starts a fresh installation with a real Airflow, a real S3 server and a job that serves. Each input is passed
to the command line, to Airflow's REST interface, and to its trigger form in a browser (Debian's ``chromium``) where the
form has a field that accepts it. The answer must be one line without a traceback, and nothing may be left behind: no
file, no journal entry, no process; Airflow's own run and log are exempt.

--doors cli     only these doors (cli,rest,form); by cli alone no Airflow is started
--only TEXT     only inputs with that text in their name
--results FILE  a JSON line for each input and door (bench/results/bad-inputs.jsonl)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from conformance.bad_inputs.form import CannotBeTyped, trigger_form
from conformance.bad_inputs.inputs import Bad, bad_inputs
from conformance.bad_inputs.stage import Answer, Stage, find_left, fresh_stage
from harness.checkout import read_origin
from harness.places import ROOT

_LONGEST = 400
_SETTLE_S = 10.0


def ask_command(stage: Stage, bad: Bad) -> tuple[Answer, list[str]]:
    """Return what the command printed, and what it left behind."""
    with (bad.around or (lambda _: nullcontext()))(stage):
        before = stage.look()
        answer = stage.by_command(bad.cli, bad.extra)
        return answer, _settled(stage, before)


Send = Callable[[str, Any], Answer | str]


def ask_airflow(stage: Stage, bad: Bad, send: Send) -> tuple[Answer, list[str]]:
    """Return what Airflow or its run answered, and what was left behind. Raises CannotBeTyped."""
    assert bad.rest is not None
    dag, conf = bad.rest
    with (bad.around or (lambda _: nullcontext()))(stage):
        before = stage.look()
        found = send(dag, conf)
        answer = stage.by_run(dag, found) if isinstance(found, str) else found
        return answer, _settled(stage, before)


def _body(conf: object) -> bytes:
    return conf if isinstance(conf, bytes) else json.dumps({"logical_date": None, "conf": conf}).encode()


def _settled(stage: Stage, before: dict[str, tuple[int, int, int]]) -> list[str]:
    """Return what is left once terminating processes have terminated."""
    deadline = time.monotonic() + _SETTLE_S
    while left := find_left(before, stage.look()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return left


def is_good(answer: Answer, left: list[str], door: str) -> bool:
    """Return whether the input was refused in one line, without a traceback and with nothing left behind.

    Airflow's own validation of a form's fields prints the rule below its line, and the form prints what is wrong at
    each field.
    """
    refused = answer.ended not in ("exit 0", "run success") and not answer.ended.startswith("HTTP 5")
    one_line = answer.lines == 1 or (door != "cli" and answer.ended in ("HTTP 400", "form"))
    return refused and one_line and bool(answer.told) and not answer.traceback and not left


def ask_all(stage: Stage, doors: list[str], only: str) -> Iterator[dict[str, object]]:
    """Yield a line for each input and door."""
    origin, inputs = read_origin(), [bad for bad in bad_inputs(stage) if only in bad.name]

    def line_of(bad: Bad, door: str, answer: Answer, left: list[str]) -> dict[str, object]:
        told = answer.told[:_LONGEST].replace(str(stage.places.root), "…").replace(str(Path.home()), "~")
        seen = {"ended": answer.ended, "told": told, "lines": answer.lines, "traceback": answer.traceback, "left": left}
        good = is_good(answer, left, door)
        airflows = bad.airflows if door != "cli" and not good and not left else ""
        return {**origin, "input": bad.name, "door": door, **seen, "good": good, "airflows": airflows}

    for bad in inputs if "cli" in doors else ():
        if bad.cli:
            yield line_of(bad, "cli", *ask_command(stage, bad))
    by_rest = [bad for bad in inputs if {"rest", "form"} & {*doors} and bad.rest]
    if by_rest:
        stage.start_airflow()
    for bad in by_rest if "rest" in doors else ():
        yield line_of(bad, "rest", *ask_airflow(stage, bad, lambda dag, conf: stage.trigger(dag, _body(conf))))
    if by_rest and "form" in doors:
        with trigger_form(stage.api.url) as form:
            for bad in by_rest:
                with suppress(CannotBeTyped):
                    yield line_of(bad, "form", *ask_airflow(stage, bad, form.send))


def main() -> int:
    """Run the bench; return 1 if an input was accepted, was not answered in one line, or left something behind."""
    parser = argparse.ArgumentParser(prog="conformance.bad_inputs", description="Bad inputs, at every door.")
    parser.add_argument("--doors", default="cli,rest,form")
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path, default=ROOT / "bench/results/bad-inputs.jsonl")
    chosen = parser.parse_args()
    lines = []
    with fresh_stage(ROOT / "build/bad-inputs") as stage, chosen.results.open("w") as results:
        for line in ask_all(stage, chosen.doors.split(","), chosen.only):
            lines.append(line)
            results.write(f"{json.dumps(line, ensure_ascii=False)}\n")
            results.flush()
            mark = " " if line["good"] else "~" if line["airflows"] else "!"
            print(f"{mark} {line['input']} [{line['door']}] {line['ended']}: {line['told']}", flush=True)
            if not line["good"]:
                print(f"    lines {line['lines']}, traceback {line['traceback']}, left {line['left']}", flush=True)
    airflows = sum(bool(line["airflows"]) for line in lines)
    wrong = sum(not line["good"] for line in lines) - airflows
    told = f"{wrong} not as they should be, and {airflows} more on which Airflow itself fails"
    print(f"{len(lines)} answers to {len({line['input'] for line in lines})} bad inputs, {told}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
