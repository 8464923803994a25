"""Program that prints, as one JSON object, the readings of every bundle below a folder. Arguments: folder, readings.

A reading yields a list of texts per bundle; several readings, separated by commas, need only one start of Python.
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
    """Print the texts by reading and bundle; each bundle is loaded once."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in readings.split(",")}
    for root in sorted(Path(folder).iterdir()):
        function = entry(run_job_file(root, "job.py"))
        for name, of_each in found.items():
            of_each[root.name] = READINGS[name](root, function)
    print(json.dumps(found))  # noqa: T201


class NoRecording(Reading):
    """A variant of ``Recording`` that reads the same code and records no parts."""

    def __init__(self, own: OwnCode, texts: SourceTexts) -> None:
        super().__init__(own)
        self.noted: dict[str, CodePart] = {}


def digests(root: Path, function: Any) -> list[str]:
    """Return a function's digests without and with a round trip through pickle, as Spark sends it."""
    return [CodeDigest(root).of(each) for each in ways(function)]


def without_the_bundle(root: Path, function: Any) -> list[str]:
    """Return the same digests without the bundle code that unknown code may reach."""
    whole = Reading._beyond
    Reading._beyond = lambda self: [[], []]  # type: ignore[method-assign]
    try:
        return digests(root, function)
    finally:
        Reading._beyond = whole  # type: ignore[method-assign]


def rewritten(root: Path, function: Any) -> list[str]:
    """Return the digests of the functions' normal forms, which do not depend on how the code is written."""
    return [CodeDigest(root).normal_forms(each).rewritten for each in ways(function)]


def ways(function: Any) -> list[Any]:
    """Return a bundle's function unchanged, and as Spark sends it to a worker."""
    try:
        return [function, cloudpickle.loads(cloudpickle.dumps(function))]
    except (AttributeError, TypeError):
        # Spark could not send it to a worker either: a sink's function.
        return [function, function]


def texts(root: Path, function: Any) -> list[str]:
    """Return a function's digest, and the names that a sink's function contains."""
    digest, named = CodeDigest(root).read(function)
    return [digest, *named]


def texts_without_parts(root: Path, function: Any) -> list[str]:
    """Return the same texts with the recording of code parts switched off."""
    whole = code_digest.Recording
    code_digest.Recording = NoRecording  # type: ignore[misc, assignment]
    try:
        return texts(root, function)
    finally:
        code_digest.Recording = whole  # type: ignore[misc]


def parts(root: Path, function: Any) -> list[str]:
    """Return what a manifest records of the function: its digest, its parts and their names."""
    read = CodeDigest(root)
    digest = read.of(function)
    return [digest, *(to_json(found).decode() for found in read.parts.of({"below/0 f": digest}))]


def entry(module: ModuleType) -> Any:
    """Return ``f`` or the result of ``make()``, after running the module's ``drive()`` if it has one."""
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
