"""What code runs in here: interpreter, packages and jars, as hashes. Reads names and sizes; imports none of it."""

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
from streamkeeper.model.release import Environment


def read_environment(conf: Mapping[str, str] | None = None, jars: str = "") -> Environment:
    """This process's environment, with the jars that ``spark.jars`` of ``conf`` and the installation's ``jars`` add.

    ``packages_sha256``: over every installed distribution's name==version. ``jars_sha256``: over the names and sizes of
    Spark's jars and the added ones (a jar of the same name and size but another content is not told apart; a remote
    jar counts by its URL). Raises InvalidInput when pyspark is not installed or an added jar is missing.
    """
    python, spark = platform.python_version(), _spark_version()
    packages, spark_jars = _installed()
    added = _added_jars(",".join([(conf or {}).get("spark.jars", ""), *installed_jars(jars)]))
    all_jars = _sha256([*spark_jars, *added])
    digest = _sha256([f"python {python}", f"spark {spark}", f"packages {packages}", f"jars {all_jars}"])
    return Environment(python=python, spark=spark, packages_sha256=packages, jars_sha256=all_jars, digest=digest)


def installed_jars(jars: str) -> tuple[str, ...]:
    """Paths of the jars that every driver gets, from ``Settings.jars``; none where there is no such directory."""
    return tuple(str(path) for directory in _jar_directories(jars) for path in sorted(directory.glob("*.jar")))


def _jar_directories(jars: str) -> list[Path]:
    """By default where `make connectors` puts Kafka's: in the environment that runs the drivers."""
    return [Path(path).absolute() for path in (jars or f"{sys.prefix}/connectors/kafka").split(":") if path]


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise InvalidInput(
            "pyspark is not installed in this environment",
            hint="make releases where the drivers' packages are installed",
        ) from None


@cache
def _installed() -> tuple[str, tuple[str, ...]]:
    """The packages' hash and Spark's jars, read once per process: both take a walk over many files."""
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
        raise InvalidInput("pyspark's files are not where its package says", hint="install pyspark again")
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
