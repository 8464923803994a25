"""The campaign of drills: every kind of fault, each on an installation of its own; or its control, with a rule switched
off.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from chaos.drills.drill import MISSED, DrillResult
from chaos.drills.kinds import KINDS
from chaos.results import Results
from chaos.unprotected import RULE


def run_drills(root: Path, results: Results, *, kinds: list[str], seeds: range, controls: bool = False) -> int:
    """Run the cases that are not in the results yet; return 1 when a cause was not named, an action did not mend the
    fault, or an output is wrong.

    ``controls`` switches off the rules that name the cause, which must then be missed; 1 is returned when it was named
    nevertheless.
    """
    if controls:
        return _run_controls(root, results, kinds or list(KINDS))
    for seed in seeds:
        for name in kinds or list(KINDS):
            case = f"{name}:{seed}"
            if case not in results.cases:
                results.add_case(play(root, case))
    return results.conclude([])


def _run_controls(root: Path, results: Results, kinds: list[str]) -> int:
    named = []
    for name in kinds:
        if name in results.controls:
            continue
        off = "+".join(f"{RULE}{each}" for each in KINDS[name].rules)
        played = play(root, f"{name}:0", off)
        # A site that broke before anything was done to it says nothing of the rule.
        found = [each for each in played.damage if each.startswith(MISSED)] if played.hits else []
        print(f"{name} without {off}: {found or 'named all the same'}", flush=True)
        results.add({"control": name, "switched_off": off, "named": played.named, "found": found})
        named += [] if found else [name]
    return 1 if named else 0


def play(root: Path, case: str, off: str = "") -> DrillResult:
    """Run one drill; a step that must succeed and fails counts as damage too. For a control, only check whether the
    cause is named.
    """
    name, _, seed = case.partition(":")
    kind, began = KINDS[name], time.monotonic()
    with kind.installation(root, int(seed), off) as drill:
        try:
            if kind.before is not None:
                kind.before(drill)
            drill.serve(*kind.options)
            if kind.snapshots:
                drill.snapshot()
            drill.watch()
            if healthy := drill.open_rules("page"):
                drill.damage.append(f"raised while nothing was wrong: {healthy}")
            kind.breaks(drill, random.Random(case))
            time.sleep(kind.waits_s)
            # A kind that is mended while it is broken has asked before.
            if not drill.cause:
                drill.diagnose(kind.causes)
            if not drill.passes:
                drill.name_the_cause(kind.rules, between_s=kind.between_s)
            if not off:
                drill.mend(kind.mend)
                drill.clears(kind.rules)
                drill.damage += drill.look()
            elif drill.undo is not None:
                drill.undo()
        except Exception as error:
            drill.damage.append(f"{type(error).__name__}: {str(error)[:600]}")
            if drill.undo is not None:
                drill.told.append("left as it was broken")
        finally:
            drill.bed.close()
            for clean_up in drill.after:
                clean_up()
        return drill.conclude(case, time.monotonic() - began)
