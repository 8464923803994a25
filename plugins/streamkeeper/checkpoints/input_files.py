"""Finds which input files still exist: on a local disk, on S3 and in HDFS. A file that cannot be checked is reported as
*not checked*, never as present and never as missing.

Spark runs a batch without its missing files and reports no error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import StoreUnavailable, StreamkeeperError
from streamkeeper.locations import scheme_of
from streamkeeper.model.settings.spark_confs import hash_setting

_AT_ONCE = 8
_FEW = 20
"""Up to this many files of one folder are checked one by one. If there are more, or if one of them is missing, the
folder is listed instead.
"""
_S3 = ("s3a", "s3")
_ENDPOINT, _PER_BUCKET = "spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.bucket."


class FileLook(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check whether input files exist."""

    total: int
    """The number of files whose existence was to be checked."""
    missing: tuple[str, ...] = ()
    """The missing files."""
    unchecked: tuple[str, ...] = ()
    """The files that could not be checked."""
    why: str = ""
    """Why the first of the unchecked files could not be checked."""

    def gone_clause(self, files: str) -> str:
        """Return text such as ``2 of 3 files of open batch 7 are missing, such as /in/a.json``; empty if no file is
        missing.

        ``files``: a name for the files, such as ``files of open batch 7``.
        """
        if not self.missing:
            return ""
        return f"{len(self.missing)} of {self.total} {files} are missing, such as {self.missing[0]}"

    def unchecked_clause(self, files: str) -> str:
        """Return text such as ``3 of 3 files of open batch 7 are not checked, such as gs://b/a.json: …``; empty if all
        were checked.
        """
        if not self.unchecked:
            return ""
        first, count = self.unchecked[0], len(self.unchecked)
        return f"{count} of {self.total} {files} are not checked, such as {first}: {self.why}"


def look_for_files(paths: Iterable[str], *, unseen: Mapping[str, str] | None = None) -> FileLook:
    """Check whether input files exist. Raises no error: a file that cannot be checked is returned as unchecked.

    ``paths``: URLs of the files, with percent escapes decoded; for the scheme ``file``, plain paths.
    ``unseen``: scheme (``file`` for plain paths) -> why this process cannot check files there.
    """
    asked = list(dict.fromkeys(paths))
    folders: dict[str, list[str]] = {}
    for path in asked:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    looks = _Looks(unseen or {})
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="input") as pool:
        found = list(pool.map(looks.look, folders, folders.values()))
    missing = {path for each, _ in found for path in each}
    unchecked = {path: why for _, each in found for path, why in each.items()}
    return FileLook(
        total=len(asked),
        missing=tuple(path for path in asked if path in missing),
        unchecked=tuple(path for path in asked if path in unchecked),
        why=next((unchecked[path] for path in asked if path in unchecked), ""),
    )


def other_s3(confs: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return why this process cannot check a query's input files on S3, as a dict: S3 scheme -> reason.

    The dict is empty if the query and this process use the same S3 server. Another server may have a bucket of the same
    name without the files. The dict is suitable for ``unseen`` of ``look_for_files``.

    ``confs``: the query's settings. A value may be plain, as in the session, or hashed, as in the query's manifest.
    ``environ``: the environment of this process.
    """
    endpoint = confs.get(_ENDPOINT, "").rstrip("/")
    ours = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", "")
    same = {ours.rstrip("/"), hash_setting(ours), hash_setting(ours.rstrip("/")), hash_setting(f"{ours.rstrip('/')}/")}
    per_bucket = any(key.startswith(_PER_BUCKET) and key.endswith(".endpoint") for key in confs)
    if endpoint in same and not per_bucket:
        return {}
    why = "the job's fs.s3a endpoint differs from AWS_ENDPOINT_URL, the server that Streamkeeper reads"
    return dict.fromkeys(_S3, why)


class _Looks:
    """A check of many folders by several threads. It sends no further request to a server that did not answer."""

    def __init__(self, unseen: Mapping[str, str]) -> None:
        self._unseen = unseen
        self._down: dict[str, str] = {}

    def look(self, folder: str, paths: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return the missing files of a folder, and for each file that could not be checked the reason, by file."""
        scheme = scheme_of(f"{folder}/") or "file"
        server = "/".join(folder.split("/")[:3])
        if why := self._unseen.get(scheme) or self._down.get(server, ""):
            return [], dict.fromkeys(paths, why)
        if scheme == "file":
            return _look_on_disk(paths)
        if scheme not in (*_S3, "hdfs"):
            return [], dict.fromkeys(paths, f"this check does not read {scheme}://")
        try:
            tree = tree_at(folder)
            names = [path.rpartition("/")[2] for path in paths]
            there = {name for name in names if tree.has(name)} if len(names) <= _FEW else set()
            if not there.issuperset(names):
                # S3 answers a request for one object in a missing bucket like one for a missing object.
                there = set(tree.fresh().files(""))
        except (StreamkeeperError, OSError, ValueError) as error:
            if isinstance(error, StoreUnavailable):
                self._down[server] = str(error)
            return [], dict.fromkeys(paths, str(error))
        return [path for path, name in zip(paths, names, strict=True) if name not in there], {}


def _look_on_disk(paths: list[str]) -> tuple[list[str], dict[str, str]]:
    missing: list[str] = []
    unchecked: dict[str, str] = {}
    for path in paths:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            missing.append(path)
        except (OSError, ValueError) as error:
            unchecked[path] = getattr(error, "strerror", None) or str(error)
    return missing, unchecked
