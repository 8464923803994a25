"""Prints each varied query's manifest as a line of JSON. Arguments as a program: input, root, Spark's confs as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.coding import to_json
from tests.inspection.queries import query, varied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def manifests(spark: SparkSession, folder: Path, root: Path) -> dict[str, str]:
    """Return each query's manifest as JSON, by the query's name."""
    return {
        name: to_json(describe(query(build()), spark, bundle_root=root)).decode()
        for name, build in varied(spark, folder).items()
    }


def main(folder: str, root: str, confs: str) -> None:
    """Print the manifests of all queries, described in one session."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in json.loads(confs).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name, manifest in manifests(spark, Path(folder), Path(root)).items():
        sys.stdout.write(f"{name} {manifest}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
