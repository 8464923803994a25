"""Describes the environment of the running code by hashes of the interpreter, the packages and the jars. Only names and
sizes are read, not contents.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streamkeeper.errors import InvalidInput
from streamkeeper.locations import scheme_of
from streamkeeper.model.manifests.release import Environment
from streamkeeper.sinks.kinds import known_kinds
from streamkeeper.sources import known_sources


def read_environment(
    conf: Mapping[str, str] | None = None, jars: str = "", checkpoints: str = "", archive: str = ""
) -> Environment:
    """Return this process's environment, including the added jars: those of ``spark.jars`` in ``conf``, and those of
    the installation.

    ``jars``, ``checkpoints``: as in ``installed_jars``; ``archive``: the result of ``keep_archive``, for releases whose
    tasks run on executors of other machines.

    In the result, ``packages_sha256`` covers every installed distribution's name==version. ``jars_sha256`` covers the
    names and sizes of Spark's jars and of the added jars. Jars with the same name and size but other content are not
    distinguished; a remote jar counts by its URL. Raises InvalidInput if pyspark is not installed or an added jar is
    missing.
    """
    python, spark = platform.python_version(), _spark_version()
    packages, spark_jars = _installed()
    added = _added_jars(",".join([(conf or {}).get("spark.jars", ""), *installed_jars(jars, checkpoints)]))
    all_jars = _sha256([*spark_jars, *added])
    of_executors = [f"executors {archive}"] if archive else []
    parts = [f"python {python}", f"spark {spark}", f"packages {packages}", f"jars {all_jars}", *of_executors]
    return Environment(
        python=python,
        spark=spark,
        packages_sha256=packages,
        jars_sha256=all_jars,
        digest=_sha256(parts),
        archive=archive,
    )


def installed_jars(jars: str, checkpoints: str = "") -> tuple[str, ...]:
    """Return the paths of the jars that every driver gets; empty if there are none.

    ``jars``: directories separated by colons, empty for the connectors of this Python environment; ``checkpoints``: the
    checkpoint root; on S3 and without ``jars``, it adds the connectors for S3.
    """
    directories = _jar_directories(jars, checkpoints)
    return tuple(str(path) for directory in directories for path in sorted(directory.glob("*.jar")))


def _jar_directories(jars: str, checkpoints: str) -> list[Path]:
    """Return the directories of jars: those of the setting, else those of `make connectors` in this environment.

    The latter contain the jars of sources and sinks, and s3a's jars if checkpoints are on S3.
    """
    if jars:
        return [Path(path).absolute() for path in jars.split(":") if path]
    kinds = [*known_sources.connector_folders(), *known_kinds.connector_folders()]
    if scheme_of(checkpoints) == "s3a":
        kinds.append("s3a")
    return [Path(sys.prefix, "connectors", kind) for kind in kinds]


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise InvalidInput(
            "pyspark is not installed in this environment",
            hint="push releases from an environment in which the drivers' packages are installed",
        ) from None


@cache
def _installed() -> tuple[str, tuple[str, ...]]:
    """Return the hash of the packages, and the name and size of each of Spark's jars. Both are read only once per
    process, because there are many files.
    """
    found: dict[str, str] = {}
    for distribution in distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    packages = _sha256([f"{name}=={number}" for name, number in sorted(found.items())])
    return packages, tuple(_sized(path) for path in sorted(_spark_jars_folder().glob("*.jar")))


def _spark_jars_folder() -> Path:
    spec = PathFinder.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise InvalidInput("the files of pyspark are not where its package declares them", hint="install pyspark again")
    return Path(spec.origin).parent / "jars"


def _added_jars(listed: str) -> list[str]:
    return sorted(_added_jar(name.strip()) for name in listed.split(",") if name.strip())


def _added_jar(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"", "file", "local"}:
        return f"{text} remote"
    path = Path(unquote(parts.path))
    if not path.is_file():
        raise InvalidInput(f"spark.jars names {text}, which is not a file", hint="give the full path of a jar")
    return _sized(path)


def _sized(path: Path) -> str:
    return f"{path.name} {path.stat().st_size}"


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
