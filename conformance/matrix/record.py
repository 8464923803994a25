"""The record of measured outcomes: one JSON line each, valid as long as neither the case nor Spark has changed."""

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

    ``outcome``: the outcome that counts; ``measured``: the outcome by the rows alone. ``commit`` and ``code``: those of
    the project at the time of the measurement; older lines have no ``code``.
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
    """Return (id, provider) -> the newest line about it."""
    if not file.exists():
        return {}
    found = [msgspec.json.decode(line, type=Truth) for line in file.read_bytes().splitlines()]
    return {(each.id, each.provider): each for each in found}


def still_true(wanted: Iterable[Pair], kept: Truths) -> Set[tuple[str, str]]:
    """Return the pairs whose line was measured with exactly the same case and the same version of Spark."""
    keys = {(case.id, provider): case.key(provider) for case, provider in wanted}
    spark = version("pyspark")
    return {each for each in keys.keys() & kept.keys() if (kept[each].key, kept[each].spark) == (keys[each], spark)}


def append_truth(file: Path, truth: Truth) -> None:
    """Append a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        stream.write(msgspec.json.encode(truth) + b"\n")


def tidy_truths(file: Path, known: Iterable[Pair]) -> None:
    """Reduce the file to one line per existing case, in the order of the cases."""
    kept = read_truths(file)
    names = [(case.id, provider) for case, provider in known]
    lines = [msgspec.json.encode(kept[name]) for name in names if name in kept]
    draft = file.with_suffix(".draft")
    draft.write_bytes(b"\n".join(lines) + b"\n")
    draft.rename(file)
