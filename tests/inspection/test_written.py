"""Tests that each finding names the line of the job in which the changed column was written, as Spark records it."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.inspection.written import line_of_function, lines_in_bundle
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.manifest import Manifest, without_context
from tests.inspection.queries import query, read, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """\
from pyspark.sql import functions as F
from pyspark.sql.types import LongType


@F.udf(LongType())
def cost(x):
    return x * 2


def build(stream):
    kept = stream.filter(F.col("x") > 3)
    priced = kept.withColumn("price", F.col("x") * F.col("y"))
    priced = priced.withColumn("cost", cost("x"))
    return priced.groupBy(F.upper("k").alias("key")).agg(
        F.sum("price").alias("total"),
        F.max("cost").alias("most"),
    )
"""
Build = Callable[..., Manifest]


@pytest.fixture
def described(spark: SparkSession, tmp_path: Path) -> Build:
    """Return a function that describes the job, with texts replaced, from a separate bundle."""
    write_files(tmp_path / "in", 1)

    def build(*edits: tuple[str, str], outside: bool = False) -> Manifest:
        text = JOB
        for before, after in edits:
            assert before in text
            text = text.replace(before, after)
        folder = tmp_path / f"bundle{len(list(tmp_path.iterdir()))}"
        (folder / "jobs").mkdir(parents=True)
        file = folder / "jobs" / "written_job.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location("written_job", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["written_job"] = module
        try:
            spec.loader.exec_module(module)
            made = query(module.build(read(spark, tmp_path / "in")))
            return describe(made, spark, bundle_root=tmp_path / "other" if outside else folder)
        finally:
            del sys.modules["written_job"]

    return build


@pytest.mark.spark
@pytest.mark.parametrize(
    ("edit", "rule", "line"),
    [
        (('F.col("x") * F.col("y")', 'F.col("x") * F.col("x")'), "aggregate-input-changed", 12),
        (('F.sum("price")', 'F.sum("y")'), "aggregate-input-changed", 15),
        (('F.upper("k")', 'F.lower("k")'), "grouping-key-changed", 14),
        (('F.col("x") > 3', 'F.col("x") > 4'), "filter-below-state-changed", 11),
        (("return x * 2", "return x * 3"), "code-in-state-changed", 7),
    ],
)
def test_a_finding_names_the_line_that_changed(described: Build, edit: tuple[str, str], rule: str, line: int) -> None:
    """A finding names the file in the bundle and the line that changed in the candidate."""
    findings = find_changes(described(), described(edit, ("import LongType", "import LongType\n")))
    assert [(each.rule, each.line) for each in findings if each.rule == rule] == [
        (rule, f"jobs/written_job.py:{line + 1}")
    ]


@pytest.mark.spark
def test_a_moved_line_changes_nothing_that_is_compared(described: Build) -> None:
    """A job whose lines moved has the same compared content, byte by byte, and yields no finding."""
    here, moved = described(), described(("from pyspark.sql import", "# one line more\nfrom pyspark.sql import"))
    assert here.written != moved.written
    assert to_json(without_context(here)) == to_json(without_context(moved))
    assert find_changes(here, moved) == ()


@pytest.mark.spark
def test_code_outside_of_the_bundle_has_no_line(described: Build) -> None:
    """Code outside the bundle has no recorded lines, because paths of libraries or of this machine help no reader."""
    assert described(outside=True).written == {}


def test_a_job_with_too_many_expressions_has_no_recorded_lines(tmp_path: Path) -> None:
    """A job with too many or too long expressions has no recorded lines, because a part of them could point at wrong
    lines.
    """
    job = tmp_path / "job.py"
    few = {f"f(x{number})": f"{job}:{number}" for number in range(500)}
    assert lines_in_bundle(few, tmp_path)["f(x7)"] == "job.py:7"
    assert lines_in_bundle({**few, "g(y)": f"{job}:1"}, tmp_path) == {}
    assert lines_in_bundle({"f" * 1001: f"{job}:1"}, tmp_path) == {}


def test_a_wrapped_function_has_the_line_at_which_it_is_written() -> None:
    """A partial or decorated function has the line at which it is written, and a builtin has none."""
    line = line_of_function(write_files)
    assert line.startswith(f"{write_files.__code__.co_filename}:")
    assert line_of_function(functools.partial(functools.partial(write_files), count=1)) == line
    assert line_of_function(functools.wraps(write_files)(lambda: None)) == line
    assert line_of_function(len) == ""
