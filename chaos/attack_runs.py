"""The campaign of attacks: every kind with every seed, each on an installation of its own; or its negative controls.

A case is ``<kind>:<seed>``. The control of a kind tries the same seeds with the kind's protection switched off until
one of them does harm, which is whatever the attack itself reports as damage.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from chaos.attacks.attack import Attack
from chaos.attacks.kinds import JOBS, KINDS
from chaos.cases import CaseResult
from chaos.results import Results
from harness.bed import fresh_bed


def run_attacks(root: Path, results: Results, *, kinds: list[str], seeds: range, controls: bool) -> int:
    """Run the cases that are not in the results yet; return 1 when a case found damage, or a control found none.
    ``kinds`` selects the kinds; empty means all.
    """
    chosen = kinds or list(KINDS)
    if controls:
        return _run_controls(root, results, chosen, seeds)
    # By seed first, so that a piece of the campaign has tried every kind.
    for seed in seeds:
        for name in chosen:
            case = f"{name}:{seed}"
            if case not in results.cases:
                results.add_case(_play(root, case))
    return results.conclude([])


def _run_controls(root: Path, results: Results, kinds: list[str], seeds: range) -> int:
    harmless = []
    for name in kinds:
        if not (off := KINDS[name].off) or name in results.controls:
            continue
        found: list[str] = []
        for seed in seeds:
            played = _play(root, f"{name}:{seed}", off)
            # A site that broke before anything was done to it says nothing of the protection.
            found = played.damage if played.hits else []
            if found:
                break
        print(f"{name} without {off}: {found or 'no damage'}", flush=True)
        results.add({"control": name, "switched_off": off, "seed": seed, "found": found})
        harmless += [] if found else [name]
    return 1 if harmless else 0


def _play(root: Path, case: str, off: str = "") -> CaseResult:
    """Run one attack; a step that must succeed and fails counts as damage too."""
    kind, _, seed = case.partition(":")
    began = time.monotonic()
    with fresh_bed(root, JOBS) as bed:
        attack = Attack(bed, int(seed), off)
        try:
            KINDS[kind].attack(attack, random.Random(f"{kind}:{seed}"))
        except Exception as error:
            attack.damage.append(f"{type(error).__name__}: {str(error)[:600]}")
        return attack.conclude(case, time.monotonic() - began)
