"""Loads classes from Java sources, which the Janino that ships in Spark compiles once per environment, for all users.

Spark's own mutable class loader loads the classes. It is the context loader of every thread in which Python calls the
JVM, and the parent of the loader of a local master's tasks. Remote executors get the classes as a jar.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_class(spark: SparkSession, source: Path) -> Any:
    """Return the ``java.lang.Class`` that a source file defines.

    The file declares its package and one public class, which has the name of the file. Repeated calls return the same
    class, because a JVM loads a class once.
    """
    jvm: Any = spark._jvm
    loader = _loader(jvm)
    loader.addURL(jvm.java.io.File(str(_classes_of(spark, source))).toURI().toURL())
    [package] = re.findall(r"^package (.+);$", source.read_text(), re.MULTILINE)
    return loader.loadClass(f"{package}.{source.stem}")


def send_class(spark: SparkSession, source: Path) -> None:
    """Make the classes of a Java source file available to remote executors."""
    context: Any = spark.sparkContext
    compiled = _classes_of(spark, source)
    folder = Path(tempfile.mkdtemp(dir=_temporary(spark._jvm)))
    archive = shutil.make_archive(str(folder / compiled.name), "zip", compiled)
    context._jsc.addJar(str(Path(archive).rename(folder / f"{compiled.name}.jar")))


def _loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _temporary(jvm: Any) -> str:
    return str(jvm.java.lang.System.getProperty("java.io.tmpdir"))


def _classes_of(spark: SparkSession, source: Path) -> Path:
    return _compiled(spark._jvm, _loader(spark._jvm), source.stem, source.read_text(), spark.version)


def _compiled(jvm: Any, loader: Any, name: str, code: str, spark_version: str) -> Path:
    """Return the directory of a source's classes: the environment's, or a temporary one of this JVM if that is not
    writable.

    ``jvm``: the JVM.
    ``loader``: its class loader.
    ``name``: the class's name.
    ``code``: the source.
    ``spark_version``: Spark's version, against which it is compiled.
    """
    key = hashlib.sha256(f"{spark_version}\n{code}".encode()).hexdigest()[:16]
    # Next to the packages it is compiled against: a user who may write there may also change Spark itself.
    for parent in (Path(sys.prefix, "share", "streamkeeper"), Path(_temporary(jvm))):
        cache = parent / f"{name}-{key}"
        if cache.is_dir() or _compile(jvm, loader, code, cache):
            return cache
    raise OSError(f"the classes of {name} cannot be written under {sys.prefix} or in the JVM's java.io.tmpdir")


def _compile(jvm: Any, loader: Any, code: str, cache: Path) -> bool:
    """Compile into the cache; return whether the classes exist there now. An existing directory counts as complete."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache.parent))
    except OSError:
        return False
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(code)
        for name, compiled in dict(compiler.getBytecodes()).items():
            target = made.joinpath(*str(name).split(".")).with_suffix(".class")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(bytes(compiled))
        # Every user who runs drivers in this environment reads them, whatever the first user's umask.
        for path in (made, *made.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.rename(made, cache)
    except OSError:
        # Another process was faster, or the disk is full.
        shutil.rmtree(made, ignore_errors=True)
    return cache.is_dir()
