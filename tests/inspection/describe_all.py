"""Run as a program: prints every varied query's manifest as a JSON line. Arguments: input, root."""

from __future__ import annotations

import sys
from pathlib import Path

from streamkeeper.driver.session import class_archive
from streamkeeper.inspection.describe import describe
from streamkeeper.model.coding import to_json
from tests.inspection.queries import query, varied


def main(folder: str, root: str) -> None:
    """All queries in one session."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", class_archive())
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name, build in varied(spark, Path(folder)).items():
        manifest = describe(query(build()), spark, bundle_root=Path(root))
        sys.stdout.write(f"{name} {to_json(manifest).decode()}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
