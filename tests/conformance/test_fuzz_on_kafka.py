"""The fuzzer's jobs on Kafka: which are drawn, how their topics hold the rows, and a pair of each kind for real."""

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
    """The edits of one kind."""
    return [each for each in edits_of(pipeline) if each.name == name]


def pair(name: str) -> Pair:
    """The first edit of a kind, as a pair."""
    return as_pair(1, 0, name, TOTALS, edits(name)[0], "hdfs")


def test_about_one_pipeline_in_six_is_on_kafka() -> None:
    """Some of them by a pattern; the rest of the pipeline is drawn as ever."""
    drawn = [draw_pipeline(f"1/{base}") for base in range(300)]
    found = [each for each in drawn if each.form == KAFKA]
    assert 35 <= len(found) <= 65
    assert {each.texts for each in found} == {(), ("topic-by-pattern",)}


def test_the_readers_of_topics_are_written_as_spark_reads_them() -> None:
    """The param with the topic's name stands in each way of naming it."""
    assert '.option("subscribe", params["input"])' in render(TOTALS).render()
    [assigned] = edits("topic-assigned")
    assert """.option("assign", f'{{"{params["input"]}": [0]}}')""" in render(assigned.after).render()
    assert "{source}" not in "".join(render(each.after).render() for each in edits_of(TOTALS))


def test_splitting_a_partition_counts_where_order_does() -> None:
    """Rows of a split partition come in another order, which no sum of whole numbers notices."""
    assert {each.label for each in edits("min-partitions")} == {Label.EQUIVALENT}
    first = TOTALS.put(Grouped("s2", ("k",), (Folded("first", ("c1",), "f1"),)))
    assert {each.label for each in edits("min-partitions", first)} == {Label.FROM_NOW_ON}


def test_a_job_that_reads_files_has_no_edits_of_topics() -> None:
    """The reader's edits need a reader of topics."""
    assert list(kafka_edits(Pipeline("json", TOTALS.stages, "update"))) == []


def test_pairs_on_kafka_are_skipped_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says how many, and no broker is started; they are drawn all the same."""
    drawn = [each for each, _ in zip(draw_pairs(1), range(12), strict=False)]
    assert all(map(on_kafka, drawn))
    places = ["--results", str(tmp_path / "r.jsonl"), "--truths", str(tmp_path / "t.jsonl")]
    places += ["--keep", str(tmp_path / "keep")]
    monkeypatch.setattr("sys.argv", ["fuzz", "--seeds", "1", "--pairs", "12", "--no-kafka", *places])
    assert command.main() == 0
    assert "12 pairs on Kafka are skipped (--no-kafka)\n" in capsys.readouterr().out
    assert not (tmp_path / "keep/w0/broker").exists()


@pytest.mark.kafka
def test_a_topic_gets_the_rows_of_after_once(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Both streams of a unit have topics of their own, and each making has new ones."""
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


@pytest.mark.kafka
def test_a_campaigns_broker_ends_with_it(kafka: KafkaBroker, tmp_path: Path) -> None:
    """It is started when it is first asked for, once, and gone also after Ctrl-C."""
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


@pytest.mark.spark
@pytest.mark.kafka
def test_pairs_on_kafka_are_measured_and_checked(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Another way to name the topic goes on and a changed aggregate does not; no topic is left behind."""
    pairs = [pair("topic-by-pattern"), pair("aggregate-function")]
    held = set(kafka.admin.list_topics(timeout=30).topics)
    lines = run_piece(pairs, tmp_path, {}, say_now, until=math.inf, servers=lambda: kafka.servers)
    safe = [each.truth.outcome.safe for each in lines if each.truth]
    assert (safe, [each.broken for each in lines]) == ([True, False], ["", ""])
    assert [grade(each) for each in lines] == [Grade.RIGHT, Grade.RIGHT]
    assert [each.answer.verdict for each in lines if each.answer] == ["RESUME", "SWITCH"]
    assert set(kafka.admin.list_topics(timeout=30).topics) == held


def graded(pairs: list[Pair], *_: object, **__: object) -> list[Line]:
    """Lines that are all of one grade, without Spark."""
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
    """Rows come from files once the edit is not one of the reader, and what both sides share is left out."""
    monkeypatch.setattr(shrinking, "run_piece", graded)
    grown = replace(TOTALS, texts=("printed",), output=Table(key=("k",)))
    [edit, *_] = edits(kind, grown)
    found, line = shrinking.shrink(as_pair(1, 0, "00", grown, edit, "hdfs"), tmp_path, say_now, lambda: "")
    assert grade(line) is Grade.UNSAFE
    assert (found.pipeline.form, found.pipeline.output, found.pipeline.texts) == (form, None, ())
    # Neither stage can go where the edit is one of the aggregate; one is enough to read topics.
    assert len(found.pipeline.stages) == (2 if form == "json" else 1)
    assert render(found.pipeline).render() != render(found.edit.after).render()
