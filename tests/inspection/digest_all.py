"""Run as a program: prints the digests of every bundle below a folder as one JSON object. Arguments: folder, switch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.reading import Reading
from streamkeeper.job_code import run_job_file
from streamkeeper.model.coding import to_json


def main(folder: str, switch: str = "") -> None:
    """Each bundle's digests: of the function itself, and of what a plan holds of it."""
    if switch == "without-the-bundle":
        Reading._beyond = lambda self: [[], []]  # type: ignore[method-assign]
    if switch == "parts":
        print(json.dumps({each.name: parts(each) for each in sorted(Path(folder).iterdir())}))  # noqa: T201
        return
    print(json.dumps({each.name: digests(each) for each in sorted(Path(folder).iterdir())}))  # noqa: T201


def digests(root: Path) -> list[str]:
    """Without and with the way through pickle, as Spark takes it."""
    module = run_job_file(root, "job.py")
    function = entry(module)
    try:
        command = cloudpickle.loads(cloudpickle.dumps(function))
    except (AttributeError, TypeError):
        # Spark could not send it to a worker either: a sink's function.
        command = function
    return [CodeDigest(root).of(function), CodeDigest(root).of(command)]


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
