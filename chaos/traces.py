"""``python -m chaos.traces BED…``: record the event traces of real runs, with which the simulation is compared.

BED is the directory of a campaign (``--root``), whose ``home`` holds the store and the checkpoints. Each operation of a
job is one run, together with the drivers that it started; a run that already has a line in the file is not recorded a
second time.

--results FILE    (bench/results/real-traces.jsonl)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from harness.checkout import read_origin
from harness.places import ROOT
from harness.traces import Follows, events_of, read_created, runs_of

RESULTS = ROOT / "bench" / "results" / "real-traces.jsonl"


def main() -> int:
    """Record the traces of every job below the given directories."""
    parser = argparse.ArgumentParser(prog="chaos.traces", description="Event traces of real runs.")
    parser.add_argument("beds", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    lines = chosen.results.read_text().splitlines() if chosen.results.exists() else []
    known = {json.loads(line)["run"] for line in lines}
    origin = read_origin()
    for bed in chosen.beds:
        home = bed / "home"
        for job in sorted(path.name for path in (home / "store" / "registry").iterdir()):
            created = read_created(home / "store", home / "checkpoints", job)
            for operation, pairs in runs_of(events_of(created, job, f"checkpoints/{job}/")).items():
                run = f"{bed.name}/{job}/{operation}"
                if run not in known and _has_ended(pairs):
                    lines.append(json.dumps({**origin, "run": run, "follows": sorted(pairs)}))
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    chosen.results.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} runs")
    return 0


def _has_ended(pairs: Follows) -> bool:
    return any(after.startswith("operation: operation-finished") for _, after in pairs)


if __name__ == "__main__":
    raise SystemExit(main())
