"""Measured outcomes as they are kept: one JSON line each, true as long as neither the case nor Spark has changed."""

from __future__ import annotations

from collections.abc import Iterable, Set
from importlib.metadata import version
from pathlib import Path

import msgspec

from conformance.matrix.case import Case, Outcome
from harness.places import ROOT

TRUTH = ROOT / "bench/results/matrix-truth.jsonl"

Pair = tuple[Case, str]


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """The measured outcome of one case under one provider.

    ``outcome``: what counts; ``measured``: what the rows alone said. ``commit`` and ``code``: of the project, when it
    was measured; older lines have no ``code``.
    """

    id: str
    provider: str
    key: str
    outcome: Outcome
    measured: Outcome
    error_class: str = ""
    evidence: str = ""
    seconds: float = 0.0
    spark: str = ""
    commit: str = ""
    code: str | msgspec.UnsetType = msgspec.UNSET


Truths = dict[tuple[str, str], Truth]


def read_truths(file: Path) -> Truths:
    """(id, provider) -> the newest line about it."""
    if not file.exists():
        return {}
    found = [msgspec.json.decode(line, type=Truth) for line in file.read_bytes().splitlines()]
    return {(each.id, each.provider): each for each in found}


def still_true(wanted: Iterable[Pair], kept: Truths) -> Set[tuple[str, str]]:
    """The pairs whose line was measured of the very same case with the very same Spark."""
    keys = {(case.id, provider): case.key(provider) for case, provider in wanted}
    spark = version("pyspark")
    return {each for each in keys.keys() & kept.keys() if (kept[each].key, kept[each].spark) == (keys[each], spark)}


def append_truth(file: Path, truth: Truth) -> None:
    """Add a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        stream.write(msgspec.json.encode(truth) + b"\n")


def tidy_truths(file: Path, known: Iterable[Pair]) -> None:
    """One line per case that there is, in the order of the cases."""
    kept = read_truths(file)
    names = [(case.id, provider) for case, provider in known]
    lines = [msgspec.json.encode(kept[name]) for name in names if name in kept]
    draft = file.with_suffix(".draft")
    draft.write_bytes(b"\n".join(lines) + b"\n")
    draft.rename(file)
