"""Loads the Java classes that the plan of a batch calls in Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.jvm.classes import load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_task_class(spark: SparkSession, name: str) -> None:
    """Load a class of this package, so that SQL's ``reflect`` finds it. Tasks of a local master find it too; executors
    on other machines do not.
    """
    load_class(spark, Path(__file__).with_name(f"{name}.java"))
