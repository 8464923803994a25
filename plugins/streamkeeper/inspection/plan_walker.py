"""Calls ``PlanWalker.java`` in Spark's JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from streamkeeper.inspection.plan_tree import Node, read_plan
from streamkeeper.jvm.classes import load_class

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SOURCE = Path(__file__).with_name("PlanWalker.java")
_WALKERS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
"""The walker of each JVM. A walker keeps no data of a session."""


class PlanWalker:
    """Reads and optimizes plans in the JVM of one session, with ``PlanWalker.java``."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        if context not in _WALKERS:
            _WALKERS[context] = load_class(spark, _SOURCE).newInstance()
        self._java = _WALKERS[context]
        self._session: Any = spark._jsparkSession

    def walk(self, plan: Any) -> Node:
        """Return every node of a logical plan with all of its arguments."""
        return read_plan(str(self._java.walk(plan)))

    def optimized(self, plan: Any) -> Any:
        """Return the plan that the session's optimizer makes from an analyzed plan.

        In the result, the current time has the form that it has in a micro-batch, but no value.
        """
        return self._java.optimized(plan, self._session.sessionState().optimizer())
