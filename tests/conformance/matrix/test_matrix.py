"""Tests of the check itself on real checkpoints of real changes: every verdict is compared with the measured behavior
of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.console import Console

from conformance.matrix.__main__ import ask, write_requests
from conformance.matrix.case import Outcome
from conformance.matrix.cases import CASES, pairs
from conformance.matrix.checking import check_with_command
from conformance.matrix.record import TRUTH, Pair, Truths, read_truths, still_true
from conformance.matrix.report import print_score
from conformance.matrix.score import Score, score
from conformance.matrix.truth import Bench, checkpoint_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = (
    ("agg_same", "v2"),
    ("agg_add_key", "hdfs"),
    ("agg_rename_key", "rocksdb"),
    ("agg_swap_key_col", "v2"),
    ("agg_sum_to_max_long", "v2"),
    ("agg_reorder_aggs_same_type", "hdfs"),
    ("agg_unit_change_upstream", "rocksdb"),
    ("agg_alias_renamed", "v2"),
    ("agg_filter_after_hides", "rocksdb"),
    ("agg_refactored", "rocksdb"),
    ("agg_udf_upstream_changed", "hdfs"),
    ("op_dedup_before_agg_added", "rocksdb"),
    ("win_same", "v2"),
    ("win_size_10_to_20", "hdfs"),
    ("win_delay_up_late", "rocksdb"),
    ("win_added_update_to_append", "hdfs"),
    ("dedup_same", "v2"),
    ("dedup_other_key_same_type", "v2"),
    ("dedup_removed", "v2"),
    ("join_same", "v2"),
    ("join_key_other_same_type", "hdfs"),
    ("join_col_swapped_same_type", "rocksdb"),
    ("join_payload_renamed", "hdfs"),
    ("src_add", "hdfs"),
    ("src_path_changed", "-"),
    ("src_maxfiles", "-"),
    ("src_schema_wrong_type", "-"),
    ("proj_same", "-"),
    ("proj_add_col", "-"),
    ("proj_udf_change", "-"),
    ("trig_an_to_ptime", "-"),
    ("apws_logic", "rocksdb"),
    ("tws_var_renamed", "rocksdb"),
    ("conf_shuffle_up", "rocksdb"),
    ("conf_ckptformat_2_1", "v2"),
    ("conf_zone_hour", "rocksdb"),
    ("sink_same_file", "-"),
    ("sink_dir_changed", "-"),
    ("sink_table_column_added", "-"),
    ("ckpt_copied", "hdfs"),
    ("ckpt_no_last_offset_stateless", "-"),
    ("ckpt_state_part_gone", "v2"),
    ("real_now_swapped", "rocksdb"),
    ("real_lambda_nested_renamed", "rocksdb"),
    ("real_text_braces", "rocksdb"),
    ("real_static_column", "rocksdb"),
)
"""The simplest changes of every group and outcome."""


@dataclass(frozen=True)
class Checked:
    """The score of the check's answers, and the contents of the checkpoints before and after it."""

    score: Score
    wanted: list[Pair]
    truths: Truths
    before: dict[str, bytes]
    after: dict[str, bytes]


def contents(root: Path, wanted: list[Pair]) -> dict[str, bytes]:
    folders = {checkpoint_of(root, case, provider) for case, provider in wanted}
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def checked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    root = tmp_path_factory.mktemp("matrix")
    wanted = [(CASES[name], provider) for name, provider in CHOSEN]
    bench = Bench(spark, root)
    for case, provider in wanted:
        bench.deploy(case, provider)
    requests, before, truths = write_requests(wanted, root), contents(root, wanted), read_truths(TRUTH)
    found = ask(wanted, truths, requests, check_with_command)
    return Checked(found, wanted, truths, before, contents(root, wanted))


@pytest.mark.storage
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_every_verdict_agrees_with_what_spark_does(checked: Checked, capsys: pytest.CaptureFixture[str]) -> None:
    """The check answers every chosen case, accepts no unsafe change and raises no false alarm; the matrix is
    printed.
    """
    with capsys.disabled():
        print_score(Console(width=160), checked.score)
    assert [(each.grade.value, each.id, each.answer) for each in checked.score.misses] == []
    assert len(checked.score.graded) == len(CHOSEN) >= 30


@pytest.mark.storage
@pytest.mark.spark
def test_every_stopping_verdict_has_a_finding_stricter_than_a_note(checked: Checked) -> None:
    """Every verdict other than RESUME, and no RESUME, has a finding stricter than a note."""
    for each in checked.score.graded:
        strict = [rule for rule in each.answer.rules if not rule.endswith("(note)")]
        assert bool(strict) is (each.answer.verdict != "RESUME"), each


@pytest.mark.storage
@pytest.mark.spark
def test_an_answer_replaced_by_resume_fails_the_score_if_unsafe(checked: Checked) -> None:
    """Negative control: with any one answer replaced by RESUME, the score fails exactly if the measured outcome of that
    case is not safe.
    """
    for pair, graded in zip(checked.wanted, checked.score.graded, strict=True):
        soft = msgspec.structs.replace(graded.answer, verdict="RESUME")
        truth = checked.truths[pair[0].id, pair[1]]
        assert score([(pair[0], truth, soft)]).failed is not truth.outcome.safe


@pytest.mark.storage
@pytest.mark.spark
def test_a_check_leaves_every_checkpoint_as_it_was(checked: Checked) -> None:
    """The check leaves every file of every checkpoint unchanged."""
    assert checked.after == checked.before


def test_every_case_has_been_measured_as_it_is_now() -> None:
    """Every case has a measurement of its present definition; ``python -m conformance.matrix --measure`` measures
    changed cases.
    """
    assert sorted({(case.id, provider) for case, provider in pairs()} - still_true(pairs(), read_truths(TRUTH))) == []


def test_the_chosen_cases_are_of_every_group_and_outcome() -> None:
    """The chosen cases cover every group and every outcome except queries that never terminate."""
    truths = read_truths(TRUTH)
    assert set(CHOSEN) <= truths.keys()
    assert {CASES[name].group for name, _ in CHOSEN} == {case.group for case in CASES.values()}
    assert {truths[each].outcome for each in CHOSEN} >= set(Outcome) - {Outcome.NEVER_ENDS}
