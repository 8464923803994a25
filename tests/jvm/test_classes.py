"""Tests that Java sources are compiled once per environment, and in a temporary directory if the environment is
read-only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamkeeper.jvm import classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOURCE = """package streamkeeper.tests;

public final class {name} {{
  public String said() {{
    return new Inner().said;
  }}

  private static final class Inner {{
    final String said = "{name}";
  }}
}}
"""


def source_of(folder: Path, name: str) -> Path:
    file = folder / f"{name}.java"
    file.write_text(SOURCE.format(name=name))
    return file


def test_a_class_is_compiled_once_for_an_environment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class is compiled into a complete directory that other users can read whatever the umask, and later loads use
    the compiled files unchanged.
    """
    monkeypatch.setattr(classes.sys, "prefix", str(tmp_path))
    source = source_of(tmp_path, "Kept")
    before = os.umask(0o077)
    try:
        assert classes.load_class(spark, source).newInstance().said() == "Kept"
    finally:
        os.umask(before)
    [cached] = (tmp_path / "share/streamkeeper").iterdir()
    assert cached.name.startswith("Kept-")
    modes = {path.stat().st_mode & 0o777 for path in (cached, *cached.rglob("*")) if path.is_dir()}
    assert modes == {0o755}
    assert {path.stat().st_mode & 0o777 for path in cached.rglob("*.class")} == {0o644}
    files = {file.name: file.stat().st_mtime_ns for file in cached.rglob("*.class")}
    assert set(files) == {"Kept.class", "Kept$Inner.class"}
    assert classes.load_class(spark, source).newInstance().said() == "Kept"
    assert {file.name: file.stat().st_mtime_ns for file in cached.rglob("*.class")} == files


def test_a_changed_source_or_spark_version_is_compiled_separately(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled classes are cached by the source's bytes and by the Spark version that they were compiled against."""
    monkeypatch.setattr(classes.sys, "prefix", str(tmp_path))
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    code = SOURCE.format(name="Versioned")
    kept = {
        classes._compiled(jvm, loader, "Versioned", *rest)
        for rest in ((code, "4.2.0"), (code, "4.2.1"), (code + "\n", "4.2.0"), (code, "4.2.0"))
    }
    assert len(kept) == 3


def test_an_environment_that_cannot_be_written_has_its_classes_elsewhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the environment cannot be written, the classes go to the JVM's temporary directory; when that cannot be
    written either, an ``OSError`` names the class.
    """
    (tmp_path / "file").touch()
    monkeypatch.setattr(classes.sys, "prefix", str(tmp_path / "file"))
    jvm: Any = spark._jvm
    system = jvm.java.lang.System
    before = system.getProperty("java.io.tmpdir")
    system.setProperty("java.io.tmpdir", str(tmp_path / "tmp"))
    try:
        assert classes.load_class(spark, source_of(tmp_path, "Homeless")).newInstance().said() == "Homeless"
        assert len([*(tmp_path / "tmp").rglob("*.class")]) == 2
        system.setProperty("java.io.tmpdir", str(tmp_path / "file"))
        with pytest.raises(OSError, match="the classes of Nowhere cannot be written under"):
            classes.load_class(spark, source_of(tmp_path, "Nowhere"))
    finally:
        system.setProperty("java.io.tmpdir", before)
