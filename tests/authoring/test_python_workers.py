"""Spark's Python workers can import a job's file, even if it writes types as text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import streamkeeper

FILE = """
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
{first}
doubled = F.udf(lambda x: 2 * x, "int")
SCHEMA = StructType.fromDDL("a int, b map<string, int>")

@F.pandas_udf("a int, b string")
def frames(rows: pd.DataFrame) -> pd.DataFrame:
    return rows

@F.pandas_udf("double")
def mean(column: pd.Series) -> float:
    return column.mean()

@F.udtf(returnType="a int")
class Ones:
    def eval(self):
        yield (1,)

def keep(key):
    return key + 1
"""


def import_as_a_worker(folder: Path, first: str, before: str) -> subprocess.CompletedProcess[str]:
    """Import the file in a process without a session, as a worker that resolves ``keep`` does."""
    (folder / "job_file.py").write_text(FILE.format(first=first))
    code = f"{before}\nimport job_file\nprint(job_file.keep(1), job_file.doubled.func(4))"
    path = f"{folder}:{Path(streamkeeper.__file__).parents[1]}"
    return subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_worker_imports_a_file_whose_udf_types_are_text(tmp_path: Path) -> None:
    """A worker can import a job's file with UDFs of every kind whose types are text, and can call functions from it."""
    told = import_as_a_worker(tmp_path, "from streamkeeper import streaming_job", "import pyspark.worker")
    assert told.stdout == "2 8\n", told.stderr


@pytest.mark.parametrize(
    ("first", "before"),
    [("", "import pyspark.worker"), ("from streamkeeper import streaming_job", "import pyspark")],
    ids=["without Streamkeeper", "in no worker"],
)
def test_a_file_with_text_types_fails_without_streamkeeper_and_outside_workers(
    tmp_path: Path, first: str, before: str
) -> None:
    """Negative control: without Streamkeeper such a file fails to import in a worker, and outside of workers
    Streamkeeper changes nothing in Spark, so it fails there, too.
    """
    told = import_as_a_worker(tmp_path, first, before)
    assert "SESSION_OR_CONTEXT_NOT_EXISTS" in told.stderr
