"""The campaign of drills: every way of breaking it, each on a site of its own; or its control, a rule switched off."""

from __future__ import annotations

import random
import time
from pathlib import Path

from bench.bed import fresh_bed
from bench.campaign.drills.drill import Drill, DrillResult
from bench.campaign.drills.kinds import JOBS, KINDS
from bench.campaign.results import Results


def run_drills(root: Path, results: Results, *, kinds: list[str], seeds: range) -> int:
    """Run what was not run yet; 1 when a cause was not named, an action did not mend it, or an output is wrong."""
    for seed in seeds:
        for name in kinds or list(KINDS):
            case = f"{name}:{seed}"
            if case not in results.cases:
                results.add_case(play(root, case))
    return results.conclude([])


def play(root: Path, case: str, off: str = "") -> DrillResult:
    """One drill; a step that must succeed and does not is damage as well."""
    name, _, seed = case.partition(":")
    kind, began = KINDS[name], time.monotonic()
    with fresh_bed(root, JOBS) as bed:
        drill = Drill(bed, int(seed), off)
        try:
            if kind.before is not None:
                kind.before(drill)
            drill.serve()
            if kind.snapshots:
                drill.snapshot()
            drill.watch()
            if healthy := drill.open_rules("page"):
                drill.damage.append(f"raised while nothing was wrong: {healthy}")
            kind.breaks(drill, random.Random(case))
            time.sleep(kind.waits_s)
            drill.diagnose(kind.causes)
            drill.name_the_cause(kind.rules)
            drill.mend(kind.mend)
            drill.clears(kind.rules)
            drill.damage += drill.look()
        except Exception as error:
            drill.damage.append(f"{type(error).__name__}: {str(error)[:600]}")
            if drill.undo is not None:
                drill.told.append("left as it was broken")
        finally:
            bed.close()
            for clean_up in drill.after:
                clean_up()
        return drill.conclude(case, time.monotonic() - began)
