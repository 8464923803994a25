"""Tests of the fuzzer's jobs on Kafka: how often they are drawn, how their topics hold the rows, and pairs that are
measured on a real broker.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.fuzz import __main__ as command
from conformance.fuzz import shrinking
from conformance.fuzz.brokers import BrokerOnDemand
from conformance.fuzz.drawing import draw_pipeline
from conformance.fuzz.edits import edits_of
from conformance.fuzz.expressions import Expr
from conformance.fuzz.kafka import kafka_edits
from conformance.fuzz.label import Edit, Label
from conformance.fuzz.outputs import Table
from conformance.fuzz.pairs import Pair, as_pair, draw_pairs
from conformance.fuzz.pieces import on_kafka, run_piece, say_now
from conformance.fuzz.pipeline import Pipeline, render
from conformance.fuzz.rows import draw_rows
from conformance.fuzz.stages import Folded, Grouped, With
from conformance.fuzz.verdicts import Grade, Line, grade
from conformance.matrix.case import Outcome
from conformance.matrix.data import KAFKA
from conformance.matrix.record import Truth
from conformance.matrix.score import Answer
from conformance.matrix.topics import add_after, delete_topics, make_topics, params_of, units_elsewhere
from harness.kafka_broker import KafkaBroker

DIFFERENCE = Expr("sub", "int", (Expr("col", "int", value="x"), Expr("col", "int", value="y")))
TOTALS = Pipeline(
    KAFKA,
    (With("s1", "c1", DIFFERENCE), Grouped("s2", ("k",), (Folded("sum", ("c1",), "f1"),))),
    "update",
)


def edits(name: str, pipeline: Pipeline = TOTALS) -> list[Edit]:
    """Return the edits of a pipeline that have this name."""
    return [each for each in edits_of(pipeline) if each.name == name]


def pair(name: str) -> Pair:
    """Return the first edit with this name as a pair."""
    return as_pair(1, 0, name, TOTALS, edits(name)[0], "hdfs")


def test_about_one_pipeline_in_six_is_on_kafka() -> None:
    """Between 35 and 65 of 300 drawn pipelines read from Kafka, some of them with a topic pattern."""
    drawn = [draw_pipeline(f"1/{base}") for base in range(300)]
    found = [each for each in drawn if each.form == KAFKA]
    assert 35 <= len(found) <= 65
    assert {each.texts for each in found} == {(), ("topic-by-pattern",)}


def test_jobs_read_their_topic_name_from_params_without_placeholders() -> None:
    """Jobs that name their topic by subscription or by assignment take the topic's name from ``params``, and no
    placeholder is left in the code.
    """
    assert '.option("subscribe", params["input"])' in render(TOTALS).render()
    [assigned] = edits("topic-assigned")
    assert """.option("assign", f'{{"{params["input"]}": [0]}}')""" in render(assigned.after).render()
    assert "{source}" not in "".join(render(each.after).render() for each in edits_of(TOTALS))


def test_splitting_a_partition_counts_where_order_does() -> None:
    """Splitting a Kafka partition changes the order of rows: the edit is equivalent for an integer sum and affects rows
    from now on for an aggregate that depends on the order.
    """
    assert {each.label for each in edits("min-partitions")} == {Label.EQUIVALENT}
    first = TOTALS.put(Grouped("s2", ("k",), (Folded("first", ("c1",), "f1"),)))
    assert {each.label for each in edits("min-partitions", first)} == {Label.FROM_NOW_ON}


def test_a_job_that_reads_files_has_no_edits_of_topics() -> None:
    """A job that reads files has no Kafka edits."""
    assert list(kafka_edits(Pipeline("json", TOTALS.stages, "update"))) == []


def test_no_kafka_skips_kafka_pairs_and_prints_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With ``--no-kafka``, the fuzzer skips pairs on Kafka, prints how many it skipped, and starts no broker."""
    drawn = [each for each, _ in zip(draw_pairs(1), range(12), strict=False)]
    assert all(map(on_kafka, drawn))
    places = ["--results", str(tmp_path / "r.jsonl"), "--truths", str(tmp_path / "t.jsonl")]
    places += ["--keep", str(tmp_path / "keep")]
    monkeypatch.setattr("sys.argv", ["fuzz", "--seeds", "1", "--pairs", "12", "--no-kafka", *places])
    assert command.main() == 0
    assert "12 pairs on Kafka are skipped (--no-kafka)\n" in capsys.readouterr().out
    assert not (tmp_path / "keep/w0/broker").exists()


@pytest.mark.storage
@pytest.mark.kafka
def test_later_rows_are_added_to_a_topic_only_once(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The later rows of a unit are added to its topics only once even if adding is repeated; both inputs have their own
    topics, and each creation uses new ones.
    """
    data = draw_rows(1, KAFKA, two=True, flush=True)
    folder = tmp_path / "units/one/in"
    make_topics(folder, data, kafka)
    first = params_of(folder)
    before = [sum(len(file.rows) for file in side) for side in (data.before, data.other_before)]
    after = [sum(len(file.rows) for file in side) for side in (data.after, data.other_after)]
    assert [kafka.range_of(first[name])[1] for name in ("input", "other")] == before
    for _ in range(2):
        add_after(folder, data, kafka)
        assert [kafka.range_of(first[name])[1] for name in ("input", "other")] == [
            one + other for one, other in zip(before, after, strict=True)
        ]
    assert (folder / "dims/places.csv").exists()
    make_topics(folder, data, kafka)
    assert {*first.values()} & {*params_of(folder).values()} == {kafka.servers}
    assert units_elsewhere(tmp_path / "units", kafka) == []
    delete_topics(tmp_path / "units", kafka)
    assert units_elsewhere(tmp_path / "units", kafka) == [tmp_path / "units/one"]


@pytest.mark.storage
@pytest.mark.kafka
def test_a_campaigns_broker_ends_with_it(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The campaign's broker starts once, when it is first needed, and is stopped and deleted when the campaign
    terminates, even by Ctrl-C.
    """
    home, asked = tmp_path / "broker", list[str]()

    def ask_twice() -> None:
        with BrokerOnDemand(home) as broker:
            assert not home.exists()
            asked.extend([broker.servers(), broker.servers()])
            assert KafkaBroker(asked[0]).answers()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask_twice()
    assert asked[0] == asked[1] != kafka.servers
    assert not KafkaBroker(asked[0]).answers()
    assert kafka.answers()
    assert not home.exists()


@pytest.mark.storage
@pytest.mark.spark
@pytest.mark.kafka
def test_pairs_on_kafka_are_measured_and_checked(kafka: KafkaBroker, tmp_path: Path) -> None:
    """On a real broker, naming the topic by a pattern is safe and gets ``RESUME``, a changed aggregate is not and gets
    ``SWITCH``, and no topic is left behind.
    """
    pairs = [pair("topic-by-pattern"), pair("aggregate-function")]
    held = set(kafka.admin.list_topics(timeout=30).topics)
    lines = run_piece(pairs, tmp_path, {}, say_now, until=math.inf, servers=lambda: kafka.servers)
    safe = [each.truth.outcome.safe for each in lines if each.truth]
    assert (safe, [each.broken for each in lines]) == ([True, False], ["", ""])
    assert [grade(each) for each in lines] == [Grade.RIGHT, Grade.RIGHT]
    assert [each.answer.verdict for each in lines if each.answer] == ["RESUME", "SWITCH"]
    assert set(kafka.admin.list_topics(timeout=30).topics) == held


def graded(pairs: list[Pair], *_: object, **__: object) -> list[Line]:
    """Return lines that all have the same grade, without running Spark."""
    truth = Truth(id="", provider="hdfs", key="", outcome=Outcome.WRONG, measured=Outcome.WRONG)
    return [
        Line(
            id=each.id,
            seed=1,
            base=0,
            edit=each.edit.name,
            label=Label.CHANGING,
            opaque=False,
            provider="hdfs",
            commit="c",
            rehearsed=True,
            truth=truth,
            answer=Answer(verdict="RESUME"),
        )
        for each in pairs
    ]


@pytest.mark.parametrize(
    ("kind", "form"),
    [("aggregate-function", "json"), ("committed-only", KAFKA), ("topic-assigned", KAFKA)],
)
def test_a_pair_on_kafka_shrinks(kind: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking removes the stages, outputs and texts that both sides share, and replaces Kafka by files unless the
    edit concerns the Kafka reader.
    """
    monkeypatch.setattr(shrinking, "run_piece", graded)
    grown = replace(TOTALS, texts=("printed",), output=Table(key=("k",)))
    [edit, *_] = edits(kind, grown)
    found, line = shrinking.shrink(as_pair(1, 0, "00", grown, edit, "hdfs"), tmp_path, say_now, lambda: "")
    assert grade(line) is Grade.UNSAFE
    assert (found.pipeline.form, found.pipeline.output, found.pipeline.texts) == (form, None, ())
    # Neither stage can go where the edit is one of the aggregate; one is enough to read topics.
    assert len(found.pipeline.stages) == (2 if form == "json" else 1)
    assert render(found.pipeline).render() != render(found.edit.after).render()
