"""``PlanWalker.java`` in Spark's JVM: compiled by the Janino that ships in Spark, once per environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from streamkeeper.inspection.plan_tree import Node, read_plan

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("PlanWalker.java")
_CLASS = "streamkeeper.inspection.PlanWalker"
_LOADED: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
"""A JVM loads the class once: each loading is a class loader that stays."""


class PlanWalker:
    """Walks plans of one session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        if context not in _LOADED:
            _LOADED[context] = _loaded(spark._jvm, context._gateway, spark.version).newInstance()
        self._java = _LOADED[context]
        self._session: Any = spark._jsparkSession

    def walk(self, plan: Any) -> Node:
        """Every node of a logical plan with all of its arguments."""
        return read_plan(str(self._java.walk(plan)))

    def without_time(self, plan: Any) -> Any:
        """An analyzed plan in which the present time is what it is in a micro-batch, and no moment."""
        return self._java.withoutTime(plan)

    def optimized(self, plan: Any) -> Any:
        """An analyzed plan as the session's optimizer leaves it, without the present time."""
        return self._java.optimized(plan, self._session.sessionState().optimizer())


def _loaded(jvm: Any, gateway: Any, spark_version: str) -> Any:
    """The class, from the environment's cache; compiled where that has none or cannot be written."""
    source = _SOURCE.read_text()
    parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    cache = _cache(source, spark_version)
    if not cache.is_dir() and not _compile(jvm, parent, source, cache):
        return _compiler(jvm, parent, source).getClassLoader().loadClass(_CLASS)
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(cache)).toURI().toURL()
    return jvm.java.net.URLClassLoader(urls, parent).loadClass(_CLASS)


def _cache(source: str, spark_version: str) -> Path:
    """Beside the packages that it is compiled against: whoever may write there may change Spark itself."""
    key = hashlib.sha256(f"{spark_version}\n{source}".encode()).hexdigest()[:16]
    return Path(sys.prefix, "share", "streamkeeper", f"plan-walker-{key}")


def _compile(jvm: Any, parent: Any, source: str, cache: Path) -> bool:
    """Whether the compiled classes are in the cache now; a directory there is whole."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cache.parent))
    except OSError:
        return False
    try:
        for name, code in dict(_compiler(jvm, parent, source).getBytecodes()).items():
            target = made.joinpath(*str(name).split(".")).with_suffix(".class")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(bytes(code))
        made.chmod(0o755)
        os.rename(made, cache)
    except OSError:
        # Another process was faster, or the disk is full.
        shutil.rmtree(made, ignore_errors=True)
    return cache.is_dir()


def _compiler(jvm: Any, parent: Any, source: str) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(source)
    return compiler
