"""How much room a driver's container asks for, by its release's conf."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MIB = {"": 1 / 1024**2, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}
_SPARK_MIB, _BESIDE_MIB = 1024, 1024
"""Of Spark's JVM where a release says nothing; and of all that is beside it: Python, its workers, the JVM's own."""
_CORES = 2


def container_mib(conf: Mapping[str, str]) -> int:
    """How much memory a driver's container asks for, MiB: that of Spark's JVM, and as much beside it as it needs."""
    text = conf.get("spark.driver.memory", "").lower().removesuffix("b").strip()
    found = re.fullmatch(r"(\d+)([kmgt]?)", text)
    spark = int(int(found[1]) * _MIB[found[2]]) if found else _SPARK_MIB
    return spark + max(_BESIDE_MIB, spark // 4)


def container_cores(conf: Mapping[str, str]) -> int:
    """How many of a node's cores."""
    told = conf.get("spark.driver.cores", "")
    return int(told) if told.isdecimal() and int(told) else _CORES
