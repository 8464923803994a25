"""Classes from Java sources: compiled by the Janino that ships in Spark, once per environment, and loaded for all.

They join Spark's own mutable class loader, the context loader of every thread that Python calls in and the parent of
what a local master's tasks load with; executors elsewhere get them as a jar.
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
    """The ``java.lang.Class`` of a source, which is called after its only public class and names its package.

    Asked for again it is the same: a JVM loads a class once.
    """
    jvm: Any = spark._jvm
    loader = _loader(jvm)
    loader.addURL(jvm.java.io.File(str(_classes_of(spark, source))).toURI().toURL())
    [package] = re.findall(r"^package (.+);$", source.read_text(), re.MULTILINE)
    return loader.loadClass(f"{package}.{source.stem}")


def send_class(spark: SparkSession, source: Path) -> None:
    """Let executors elsewhere load the classes of a source."""
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
    """The directory of its classes: the environment's, or one of this JVM's where that cannot be written."""
    key = hashlib.sha256(f"{spark_version}\n{code}".encode()).hexdigest()[:16]
    # Beside the packages that it is compiled against: whoever may write there may change Spark itself.
    for parent in (Path(sys.prefix, "share", "streamkeeper"), Path(_temporary(jvm))):
        cache = parent / f"{name}-{key}"
        if cache.is_dir() or _compile(jvm, loader, code, cache):
            return cache
    raise OSError(
        f"no writable place for the classes of {name}: not under {sys.prefix}, not in the JVM's java.io.tmpdir"
    )


def _compile(jvm: Any, loader: Any, code: str, cache: Path) -> bool:
    """Whether the compiled classes are in the cache now; a directory there is whole."""
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
        # Whoever runs drivers in this environment reads them, whatever the umask of who was first.
        for path in (made, *made.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.rename(made, cache)
    except OSError:
        # Another process was faster, or the disk is full.
        shutil.rmtree(made, ignore_errors=True)
    return cache.is_dir()
