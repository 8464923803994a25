"""Tests which Java is used, and the error for one on which Spark does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.errors import PermanentError
from streamkeeper.system.java import check_java, find_java


def a_java(folder: Path, says: str, *, mode: int = 0o755) -> dict[str, str]:
    """Create a Java program that prints this version text, and return an environment that points to it."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    program.chmod(mode)
    return {"JAVA_HOME": str(folder), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    "says",
    [
        'openjdk version "17.0.9" 2023-10-17',
        'NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19',
        "a runtime that names no version",
    ],
)
def test_a_java_of_version_17_or_newer_is_accepted(tmp_path: Path, says: str) -> None:
    """A Java of version 17 or newer is accepted, and so is one whose version cannot be determined, because Spark then
    decides.
    """
    check_java(a_java(tmp_path, says))


@pytest.mark.parametrize("says", ['java version "1.8.0_392"', 'NOTE: Picked up\nopenjdk version "11.0.2" 2019-01-15'])
def test_an_older_java_is_named(tmp_path: Path, says: str) -> None:
    """An older Java is refused with its version and a hint to install Java 17."""
    with pytest.raises(PermanentError, match=r"wrong version: .*version .*install Java 17"):
        check_java(a_java(tmp_path, says))


def test_the_error_for_a_missing_java_names_the_searched_place(tmp_path: Path) -> None:
    """The error for a missing Java names the searched place; ``JAVA_HOME`` takes precedence over the ``PATH``, as in
    Spark's scripts, and a program that is not executable does not count.
    """
    there = a_java(tmp_path / "there", "")
    with pytest.raises(PermanentError, match=f"no java under JAVA_HOME={tmp_path}/nowhere"):
        find_java({"JAVA_HOME": f"{tmp_path}/nowhere", "PATH": f"{there['JAVA_HOME']}/bin"})
    with pytest.raises(PermanentError, match="no java on the PATH"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(PermanentError, match="no java under"):
        find_java(a_java(tmp_path / "locked", "", mode=0o644))
    assert find_java({"PATH": f"{there['JAVA_HOME']}/bin"}) == f"{tmp_path}/there/bin/java"


def test_a_java_program_that_cannot_be_executed_is_refused(tmp_path: Path) -> None:
    """A Java program that cannot be executed, for example one for a different processor, is refused."""
    environ = a_java(tmp_path, "")
    (tmp_path / "bin" / "java").write_bytes(b"\x7fELF of another processor")
    with pytest.raises(PermanentError, match="Java does not run: "):
        check_java(environ)
