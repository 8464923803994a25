"""A job named as FILE:NAME on the command line, and the driver processes that are asked about it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import streamkeeper
from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.model.check import JobFile
from streamkeeper.model.control import SECRETS
from streamkeeper.model.release import ParamValue


def read_job_file(text: str, params: dict[str, ParamValue], conf: dict[str, str]) -> JobFile:
    """``jobs/sales_totals.py:sales_totals``; raises InvalidInput or NotFound."""
    file, separator, name = text.rpartition(":")
    if not separator or not file or not name:
        raise InvalidInput(f"{text!r} is not FILE:NAME", hint="jobs/sales_totals.py:sales_totals")
    path = Path(file).absolute()
    if not path.is_file():
        raise NotFound(f"job file {file} does not exist")
    root = _root_of(path)
    return JobFile(root=str(root), entry=path.relative_to(root).as_posix(), name=name, params=params, conf=conf)


def driver_environment(secrets: dict[str, str]) -> dict[str, str]:
    """This process's own, with this very package first, and the secrets as a driver gets them."""
    packages = str(Path(streamkeeper.__file__).parents[1])
    path = os.pathsep.join(each for each in (packages, os.environ.get("PYTHONPATH", "")) if each)
    return {**os.environ, "PYTHONPATH": path, SECRETS: json.dumps(secrets)}


def _root_of(path: Path) -> Path:
    """The jobs root if the file lies under it, else the file's own folder."""
    root = Path(os.environ.get("STREAMKEEPER_JOBS") or "jobs").absolute()
    return root if path.is_relative_to(root) else path.parent
