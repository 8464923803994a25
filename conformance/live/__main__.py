"""``python -m conformance.live``: 200 captures of a live checkpoint over the layouts of state; a line each."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import msgspec

from conformance.live.capturing import ROOT, run_captures
from harness.checkout import read_origin
from harness.state_layouts import LAYOUTS


def main() -> int:
    """Run the captures; return 1 if any snapshot could not be resumed at its own commit."""
    parser = argparse.ArgumentParser(prog="conformance.live", description="Capture live checkpoints, resume each.")
    parser.add_argument("--captures", type=int, default=50, help="for each layout")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--results", type=Path, default=ROOT / "build/live-captures.jsonl")
    parser.add_argument("--root", type=Path, default=ROOT / "build/live")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", action="store_true", help="one capture of the first layout, into build/first/")
    chosen = parser.parse_args()
    if chosen.first:
        chosen.captures, chosen.layouts = 1, next(iter(LAYOUTS))
        chosen.results = ROOT / "build/first/live-captures.jsonl"
        chosen.results.unlink(missing_ok=True)
    origin, faults = read_origin(), 0
    for layout in chosen.layouts.split(","):
        root = chosen.root / layout
        shutil.rmtree(root, ignore_errors=True)
        found = run_captures(root, layout, chosen.captures, seed=chosen.seed)
        chosen.results.parent.mkdir(parents=True, exist_ok=True)
        with chosen.results.open("a") as file:
            for each in found:
                line = {**origin, "seed": chosen.seed, **msgspec.to_builtins(each)}
                file.write(json.dumps(line) + "\n")
        bad = sum(bool(each.fault) for each in found)
        again = sum(each.attempts > 1 for each in found)
        behind = sum(each.committed_meanwhile for each in found)
        print(
            f"{layout}: {len(found)} captures, {again} of them after more than one look, {behind} batches committed"
            f" meanwhile, {bad} could not be resumed",
            flush=True,
        )
        faults += bad
        shutil.rmtree(root, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
