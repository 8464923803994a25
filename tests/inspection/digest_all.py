"""Run as a program: prints the digests of every bundle below a folder as one JSON object. Arguments: folder, switch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from streamkeeper.inspection import code_digest
from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.own_code import OwnCode
from streamkeeper.inspection.reading import Reading
from streamkeeper.inspection.source_texts import SourceTexts
from streamkeeper.job_code import run_job_file
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifest import CodePart


def main(folder: str, switch: str = "") -> None:
    """Each bundle's digests: of the function itself, and of what a plan holds of it."""
    if switch == "without-the-bundle":
        Reading._beyond = lambda self: [[], []]  # type: ignore[method-assign]
    if switch == "texts-without-parts":
        code_digest.Recording = NoRecording  # type: ignore[misc, assignment]
    wanted = {"parts": parts, "rewritten": rewritten, "texts": texts, "texts-without-parts": texts}.get(switch, digests)
    print(json.dumps({each.name: wanted(each) for each in sorted(Path(folder).iterdir())}))  # noqa: T201


class NoRecording(Reading):
    """Reads as ``Recording`` does, and notes nothing."""

    def __init__(self, own: OwnCode, texts: SourceTexts) -> None:
        super().__init__(own)
        self.noted: dict[str, CodePart] = {}


def digests(root: Path) -> list[str]:
    """Without and with the way through pickle, as Spark takes it."""
    return [CodeDigest(root).of(function) for function in functions(root)]


def rewritten(root: Path) -> list[str]:
    """The digests of what the functions do, however they are written."""
    return [CodeDigest(root).normal_forms(function).rewritten for function in functions(root)]


def functions(root: Path) -> list[Any]:
    """A bundle's function as it is, and as Spark sends it to a worker."""
    function = entry(run_job_file(root, "job.py"))
    try:
        return [function, cloudpickle.loads(cloudpickle.dumps(function))]
    except (AttributeError, TypeError):
        # Spark could not send it to a worker either: a sink's function.
        return [function, function]


def texts(root: Path) -> list[str]:
    """A function's digest, and what a sink's function names."""
    digest, named = CodeDigest(root).read(entry(run_job_file(root, "job.py")))
    return [digest, *named]


def parts(root: Path) -> list[str]:
    """What a manifest has of the function: its digest, its parts, and the names of them."""
    read = CodeDigest(root)
    digest = read.of(entry(run_job_file(root, "job.py")))
    return [digest, *(to_json(found).decode() for found in read.parts.of({"below/0 f": digest}))]


def entry(module: ModuleType) -> Any:
    """``f``, or what ``make()`` builds; after what the driver does meanwhile."""
    if hasattr(module, "drive"):
        module.drive()
    return module.f if hasattr(module, "f") else module.make()


if __name__ == "__main__":
    main(*sys.argv[1:])
