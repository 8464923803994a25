"""Every case by id, and the outcomes of an earlier, independent measurement of the same changes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conformance.matrix import (
    aggregation,
    damaged,
    dedup,
    joins,
    projection,
    python_state,
    realistic,
    realistic_inputs,
    realistic_python,
    settings,
    sinks,
    sources,
    windows,
)
from conformance.matrix.case import BOTH, Case, Outcome

_MODULES = (
    aggregation,
    windows,
    dedup,
    joins,
    sources,
    projection,
    python_state,
    settings,
    sinks,
    damaged,
    realistic,
    realistic_inputs,
    realistic_python,
)
_RECORDED = Path(__file__).with_name("recorded.tsv")


def read_recorded() -> dict[tuple[str, str], Outcome]:
    """Return (id, provider) -> the outcome that was recorded before these cases existed."""
    lines = [line.split("\t") for line in _RECORDED.read_text().splitlines()[1:]]
    return {(name, provider): Outcome(outcome) for name, provider, outcome, *_ in lines}


def _thinned(case: Case, known: frozenset[str]) -> Case:
    """Return the case with one of the two providers, in turn, if its change was never measured before: they seldom
    differ.

    Changes of realistic jobs always run with both providers.
    """
    if case.id in known or case.providers != BOTH or case.group == "realistic":
        return case
    return replace(case, providers=(BOTH[zlib.crc32(case.id.encode()) % 2],))


_KNOWN = frozenset(name for name, _ in read_recorded())
CASES: dict[str, Case] = {case.id: _thinned(case, _KNOWN) for module in _MODULES for case in module.CASES}

if len(CASES) != sum(len(module.CASES) for module in _MODULES):
    raise ValueError("two cases have one id")


def pairs(only: frozenset[str] = frozenset(), spread: int = 0) -> Iterator[tuple[Case, str]]:
    """Yield case and provider, in order; ``only``: ids or groups; ``spread``: so many, evenly over all of them."""
    found = [
        (case, provider)
        for case in CASES.values()
        for provider in case.providers
        if not only or case.id in only or case.group in only
    ]
    step = max(1, len(found) // spread) if spread else 1
    yield from found[::step][: spread or None]
