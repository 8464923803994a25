"""What Spark did with each pair, one JSON line each: looked up by what was run, and valid for one version of Spark.

A pair's key is a digest of both job texts, their confs and params, and the rows. It covers no file of ``plugins/``: an
outcome stays valid when the rules of the check change, and for the same pair under a different id.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import msgspec

from conformance.fuzz.pairs import Pair
from conformance.matrix.record import Truth, append_truth
from harness.places import ROOT

TRUTHS = ROOT / "bench/results/fuzz-truths.jsonl"

Key = tuple[str, str]
"""A pair's key and Spark's version."""
Known = dict[Key, Truth]


def key_of(pair: Pair) -> str:
    """Return a digest that changes with everything on which a pair's outcome depends, except for Spark itself."""
    return pair.case.key(pair.provider)


def read_known(file: Path) -> Known:
    """Return the newest line about each key."""
    if not file.exists():
        return {}
    found = [msgspec.json.decode(line, type=Truth) for line in file.read_bytes().splitlines()]
    return {(each.key, each.spark): each for each in found}


def truth_of(pair: Pair, known: Known) -> Truth | None:
    """Return what this version of Spark did with the pair, under the pair's present id; None if it has not been
    measured.
    """
    found = known.get((key_of(pair), version("pyspark")))
    return found and msgspec.structs.replace(found, id=pair.id)


def keep_truth(file: Path, truth: Truth) -> None:
    """Append a line in one write: a different worker may append to the same file."""
    append_truth(file, truth)


def tidy_known(file: Path) -> None:
    """Reduce the file to one line per key, in the order of the ids."""
    lines = sorted(read_known(file).values(), key=lambda each: (each.id, each.key, each.spark))
    draft = file.with_suffix(".draft")
    draft.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    draft.rename(file)
