"""Tests static files of the bundle: the same file in a different release is no change, and different content is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.compatibility.older_manifests import as_described_before
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest, without_context
from tests.inspection.queries import query, read, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
RATES = "id,price\n1,2\n2,3\n"
Described = Callable[..., Manifest]


@pytest.fixture
def described(spark: SparkSession, tmp_path: Path) -> Described:
    """Return a function that describes a sum over a stream joined with ``data/rates.csv`` of a release's own bundle."""
    from pyspark.sql import functions as F

    write_files(tmp_path / "in", 1)

    def build(
        release: str,
        rates: str = RATES,
        *,
        file: str = "data/rates.csv",
        more: str = "",
        root: Path | None = None,
        made: Callable[[DataFrame], DataFrame] = lambda rates: rates,
        **options: str,
    ) -> Manifest:
        bundle = tmp_path / release
        (bundle / "data").mkdir(parents=True, exist_ok=True)
        (bundle / "data" / "rates.csv").write_text(rates)
        if more:
            (bundle / "data" / "more.csv").write_text(more)
        table = spark.read.options(header="true", **options).schema("id long, price long").csv(str(bundle / file))
        stream = read(spark, tmp_path / "in").join(made(table), F.col("x") == F.col("id"))
        totals = stream.groupBy("k").agg(F.sum("price"), *(F.max(name) for name in ("seen",) if name in stream.columns))
        return describe(query(totals), spark, bundle_root=root or bundle)

    return build


def verdict(old: Manifest, new: Manifest) -> Verdict:
    return verdict_of(find_changes(old, new))


@pytest.mark.parametrize("file", ["data/rates.csv", "data", "data/*.csv"])
def test_the_same_bundled_file_in_a_different_release_yields_no_finding(described: Described, file: str) -> None:
    """The same bundled file in a different release yields no finding, not even a note, whether it is read by name, by
    directory or by pattern.
    """
    assert find_changes(described("r1", file=file), described("r2", file=file)) == ()


@pytest.mark.parametrize("file", ["data/rates.csv", "data", "data/*.csv"])
def test_changed_content_of_a_bundled_file_below_state_requires_a_switch(described: Described, file: str) -> None:
    """Different content of a bundled file that feeds state requires a SWITCH, because the state holds sums over the old
    prices.
    """
    changed = RATES.replace("3", "4")
    old, new = described("r1", file=file), described("r2", changed, file=file)
    assert (verdict(old, new), verdict(new, old)) == (Verdict.SWITCH, Verdict.SWITCH)
    assert "<bundle>/data" in find_changes(old, new)[0].evidence


def test_an_additional_file_in_a_directory_that_is_read_requires_a_switch(described: Described) -> None:
    """An additional file requires a SWITCH if its directory is read, and is no change beside a file that is read by
    name.
    """
    assert verdict(described("r1", file="data"), described("r2", file="data", more=RATES)) is Verdict.SWITCH
    assert find_changes(described("r3"), described("r4", more=RATES)) == ()


def test_other_options_of_the_reader_are_a_change(described: Described) -> None:
    """Different reader options for the same file require a SWITCH."""
    assert verdict(described("r1"), described("r2", sep=";")) is Verdict.SWITCH


def test_a_file_outside_the_bundle_is_compared_by_its_path(described: Described, tmp_path: Path) -> None:
    """A file outside the bundle is compared by its path, because its content is not part of the release."""
    elsewhere = tmp_path / "in"
    assert verdict(described("r1", root=elsewhere), described("r2", root=elsewhere)) is Verdict.SWITCH


def test_a_moved_file_requires_a_switch_if_its_metadata_is_read(described: Described) -> None:
    """If the query reads a file's name or modification time, the same file in a different release requires a SWITCH,
    because the release's directory may be in the state.
    """
    from pyspark.sql import functions as F

    def named(rates: DataFrame) -> DataFrame:
        return rates.withColumn("seen", F.input_file_name())

    def dated(rates: DataFrame) -> DataFrame:
        return rates.select("*", F.col("_metadata.file_modification_time").alias("seen"))

    for made in (named, dated):
        assert verdict(described("r1", made=made), described("r2", made=made)) is Verdict.SWITCH
    late = {"modifiedAfter": "2020-01-01T00:00:00"}
    assert verdict(described("r1", **late), described("r2", **late)) is Verdict.SWITCH


def test_a_release_described_by_an_older_version_resumes_in_the_same_directory(
    described: Described, tmp_path: Path
) -> None:
    """A release that an older version described by the file's path resumes in the same directory, and requires a SWITCH
    in a different one because equality cannot be proven.
    """
    found = described("r1")
    older = msgspec.structs.replace(described("r1", root=tmp_path / "in"), digests=1)
    assert older.bundle == ""
    assert (verdict(older, found), verdict(older, described("r2"))) == (Verdict.RESUME, Verdict.SWITCH)
    told, stored = as_described_before(found, older)
    assert without_context(told) == without_context(stored)
    told, stored = as_described_before(described("r2"), older)
    assert without_context(told) != without_context(stored)
