"""A job named as FILE:NAME on the command line."""

from __future__ import annotations

import os
from pathlib import Path

from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.locations import local_path
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.protocol.check_messages import JobFile


def read_job_file(text: str, params: dict[str, ParamValue], conf: dict[str, str]) -> JobFile:
    """Parse FILE:NAME, such as ``jobs/sales_totals.py:sales_totals``; raises InvalidInput or NotFound."""
    file, separator, name = text.rpartition(":")
    if not separator or not file or not name or "/" in name:
        raise InvalidInput(f"{text!r} is not FILE:NAME", hint="write it like `jobs/sales_totals.py:sales_totals`")
    path = local_path("job file", file)
    if not path.is_file():
        raise NotFound(f"job file {file} does not exist")
    root = _root_of(path)
    return JobFile(root=str(root), entry=path.relative_to(root).as_posix(), name=name, params=params, conf=conf)


def _root_of(path: Path) -> Path:
    """Return the jobs root if the file is in it or below it, else the file's folder."""
    root = local_path("STREAMKEEPER_JOBS", os.environ.get("STREAMKEEPER_JOBS") or "jobs")
    return root if path.is_relative_to(root) else path.parent
