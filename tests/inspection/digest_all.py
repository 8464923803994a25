"""Run as a program: prints what is read of every bundle below a folder as one JSON object. Arguments: folder, readings.

A reading gives a list of texts per bundle; several, separated by commas, cost one start of Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from streamkeeper.authoring.job_code import run_job_file
from streamkeeper.inspection import code_digest
from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.own_code import OwnCode
from streamkeeper.inspection.reading import Reading
from streamkeeper.inspection.source_texts import SourceTexts
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.manifest import CodePart


def main(folder: str, readings: str) -> None:
    """Reading -> bundle -> texts; each bundle is loaded once."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in readings.split(",")}
    for root in sorted(Path(folder).iterdir()):
        function = entry(run_job_file(root, "job.py"))
        for name, of_each in found.items():
            of_each[root.name] = READINGS[name](root, function)
    print(json.dumps(found))  # noqa: T201


class NoRecording(Reading):
    """Reads as ``Recording`` does, and notes nothing."""

    def __init__(self, own: OwnCode, texts: SourceTexts) -> None:
        super().__init__(own)
        self.noted: dict[str, CodePart] = {}


def digests(root: Path, function: Any) -> list[str]:
    """Without and with the way through pickle, as Spark takes it."""
    return [CodeDigest(root).of(each) for each in ways(function)]


def without_the_bundle(root: Path, function: Any) -> list[str]:
    """The same digests if what unknown code may reach is not brought in."""
    whole = Reading._beyond
    Reading._beyond = lambda self: [[], []]  # type: ignore[method-assign]
    try:
        return digests(root, function)
    finally:
        Reading._beyond = whole  # type: ignore[method-assign]


def rewritten(root: Path, function: Any) -> list[str]:
    """The digests of what the functions do, however they are written."""
    return [CodeDigest(root).normal_forms(each).rewritten for each in ways(function)]


def ways(function: Any) -> list[Any]:
    """A bundle's function as it is, and as Spark sends it to a worker."""
    try:
        return [function, cloudpickle.loads(cloudpickle.dumps(function))]
    except (AttributeError, TypeError):
        # Spark could not send it to a worker either: a sink's function.
        return [function, function]


def texts(root: Path, function: Any) -> list[str]:
    """A function's digest, and what a sink's function names."""
    digest, named = CodeDigest(root).read(function)
    return [digest, *named]


def texts_without_parts(root: Path, function: Any) -> list[str]:
    """The same if no part is noted."""
    whole = code_digest.Recording
    code_digest.Recording = NoRecording  # type: ignore[misc, assignment]
    try:
        return texts(root, function)
    finally:
        code_digest.Recording = whole  # type: ignore[misc]


def parts(root: Path, function: Any) -> list[str]:
    """What a manifest has of the function: its digest, its parts, and the names of them."""
    read = CodeDigest(root)
    digest = read.of(function)
    return [digest, *(to_json(found).decode() for found in read.parts.of({"below/0 f": digest}))]


def entry(module: ModuleType) -> Any:
    """``f``, or what ``make()`` builds; after what the driver does meanwhile."""
    if hasattr(module, "drive"):
        module.drive()
    return module.f if hasattr(module, "f") else module.make()


READINGS = {
    "digests": digests,
    "without the bundle": without_the_bundle,
    "rewritten": rewritten,
    "texts": texts,
    "texts without parts": texts_without_parts,
    "parts": parts,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
