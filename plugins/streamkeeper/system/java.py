"""The Java with which a driver starts Spark: its location, and whether Spark supports it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from streamkeeper.errors import PermanentError

_HINT = "install Java 17 (Debian, Ubuntu: openjdk-17-jre-headless) or point JAVA_HOME at it"
_OLDEST = 17


def find_java(environ: Mapping[str, str]) -> str:
    """Return the path of the java that Spark's own scripts would run; raises PermanentError if java is not found."""
    home = environ.get("JAVA_HOME")
    path = str(Path(home) / "bin") if home else environ.get("PATH", "")
    found = shutil.which("java", path=path)
    if found is None:
        where = f"under JAVA_HOME={home}" if home else "on the PATH"
        raise PermanentError(f"Java is missing: there is no java {where}", hint=_HINT)
    return found


def check_java(environ: Mapping[str, str]) -> None:
    """Raise PermanentError if Java is missing, does not run, or is too old for Spark. The check takes a tenth of a
    second.

    A Java whose version cannot be read is accepted.
    """
    try:
        completed = subprocess.run(
            [find_java(environ), "-version"],
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise PermanentError(f"Java does not run: {failure}", hint=_HINT) from failure
    version = re.search(r'version "(\d+)(?:\.(\d+))?', completed.stderr)
    if version is None:
        return
    major = int(version[2] or 0) if version[1] == "1" else int(version[1])
    if major < _OLDEST:
        shown = next(line for line in completed.stderr.splitlines() if "version" in line)
        raise PermanentError(f"Java has the wrong version: {shown}", hint=_HINT)
