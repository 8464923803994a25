"""Tests of the check in one session, with real checkpoints, real candidates, and invalid input that is answered with a
clear error line.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from harness.checkpoint_files import Tree
from streamkeeper.checkpoints import lasting
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver import check_session
from streamkeeper.driver.check_session import Checker
from streamkeeper.errors import CheckpointChanged
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.check_messages import CheckAnswer, CheckRequest, JobFile
from tests.checkpoints.damaging import remove

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import functions as F
from streamkeeper import ForeachBatch, Param, Query, streaming_job

def write(batch, context):
    raise AssertionError("a check never writes")

@streaming_job(name="totals", params={"input": Param(str)})
def totals(spark, params):
    rows = spark.readStream.schema("k string, k2 string, x long").option("maxFilesPerTrigger", 1).json(params["input"])
    sums = rows.groupBy("k").agg(F.sum("x").alias("s"))
    yield Query("totals", sums, sink=ForeachBatch(write), output_mode="update", trigger="availableNow")
"""

STREAM = JOB[JOB.index("spark.readStream") : JOB.index('(params["input"])') + len('(params["input"])')]


class House:
    """A deployed job with its input and a checkpoint of three batches."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.input = root / "in"
        self.checkpoint = root / "checkpoint"
        self.deployed = self.write("deployed", JOB)
        self.checker = Checker(spark, root / "scratch", {})
        self.input.mkdir()
        for number, rows in enumerate([[("a", 1), ("b", 2)], [("a", 3)], [("c", 4)]]):
            file = self.input / f"{number}.json"
            file.write_text("\n".join(json.dumps({"k": k, "k2": f"{k}2", "x": x}) for k, x in rows))
            os.utime(file, (1_700_000_000 + number,) * 2)

    def write(self, folder: str, text: str, file: str = "job.py") -> JobFile:
        """Write a job file into a folder of its own."""
        (self.root / folder).mkdir(exist_ok=True)
        (self.root / folder / file).write_text(text)
        return JobFile(root=str(self.root / folder), entry=file, name="totals", params={"input": str(self.input)})

    def candidate(self, *changes: tuple[str, str]) -> JobFile:
        """Return the deployed job with parts of its text replaced."""
        text = JOB
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return self.write("candidate", text)

    def ask(self, candidate: JobFile, **fields: object) -> CheckAnswer:
        """Return the check's answer about a candidate."""
        plain = CheckRequest(candidate=candidate, deployed=self.deployed, checkpoints={"": str(self.checkpoint)})
        return self.checker.answer(msgspec.structs.replace(plain, **fields))

    def rules(self, *changes: tuple[str, str]) -> tuple[Verdict, list[str]]:
        """Return the verdict and the rules found for a changed job."""
        answer = self.ask(self.candidate(*changes))
        assert answer.assessment is not None, answer.error
        return answer.assessment.verdict, [each.rule for each in answer.assessment.queries["totals"].findings]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """The house that is created once per module; tests that damage it use a copy."""
    from pyspark.sql import functions as F

    house = House(tmp_path_factory.mktemp("house"), spark)
    rows = spark.readStream.schema("k string, k2 string, x long").option("maxFilesPerTrigger", 1)
    sums = rows.json(str(house.input)).groupBy("k").agg(F.sum("x").alias("s"))
    writer = sums.writeStream.outputMode("update").option("checkpointLocation", str(house.checkpoint))
    running = writer.foreachBatch(lambda batch, _: batch.collect()).trigger(availableNow=True).start()
    assert running.awaitTermination(120)
    return house


@pytest.fixture
def house(made: House, spark: SparkSession, tmp_path: Path) -> House:
    """A copy of the house whose checkpoint and files may be changed."""
    copy = House(tmp_path, spark)
    copy.input = made.input
    copy.deployed = copy.write("deployed", JOB)
    shutil.copytree(made.checkpoint, copy.checkpoint)
    return copy


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_the_same_job_is_resumed_and_nothing_is_touched(house: House) -> None:
    """An unchanged job gets ``RESUME`` without findings, and the check, including its rehearsal, leaves every byte of
    the checkpoint unchanged.
    """
    before = snapshot(house.checkpoint)
    assert house.rules() == (Verdict.RESUME, [])
    assert snapshot(house.checkpoint) == before


UNREADABLE_CODE = (
    (
        "def write(",
        'OPEN = (each for each in "ab")\ndef plus(x):\n    return x + (1 if OPEN else 2)\n\ndef write(',
    ),
    ('F.sum("x")', 'F.sum(F.udf(plus, "long")("x"))'),
)


def test_unanalysable_code_counts_as_unchanged_only_in_an_identical_bundle(house: House) -> None:
    """Code that cannot be analysed counts as unchanged only in an identical bundle: an added file in the job's folder
    changes the verdict from ``RESUME`` to ``BACKUP``.
    """
    text = JOB
    for old, new in UNREADABLE_CODE:
        text = text.replace(old, new)
    house.deployed = house.write("deployed", text)
    assert house.rules(*UNREADABLE_CODE) == (Verdict.RESUME, [])
    (house.root / "candidate" / "more.json").write_text("{}")
    assert house.rules(*UNREADABLE_CODE) == (Verdict.BACKUP, ["code-in-state-unreadable"])


def test_a_sinks_function_is_compared_by_its_code_and_by_what_it_names(house: House) -> None:
    """A sink function that writes to a different table gets ``BACKUP`` with both lines as evidence; the same write in
    other words gets ``RESUME``.
    """
    writes = ('raise AssertionError("a check never writes")', 'batch.write.insertInto("orders")')
    house.deployed = house.write("deployed", JOB.replace(*writes))
    assert house.rules(writes) == (Verdict.RESUME, [])
    other_words = (writes[0], 'rows = batch.write\n    rows.insertInto("orders")')
    assert house.rules(other_words) == (Verdict.RESUME, ["code-rewritten-equally"])
    answer = house.ask(house.candidate((writes[0], 'batch.write.insertInto("orders_v2")')))
    assert answer.assessment is not None
    assert answer.assessment.verdict is Verdict.BACKUP
    shown = {each.rule: each.evidence for each in answer.assessment.queries["totals"].findings}
    assert shown["sink-function-may-write-elsewhere"].startswith("function job.write (job.py:")
    assert shown["sink-function-may-write-elsewhere"].endswith(
        ": `batch.write.insertInto('orders')` → `batch.write.insertInto('orders_v2')`"
    )


KEYED = (
    ('raise AssertionError("a check never writes")', 'batch.select("id", "s").write.insertInto("orders")'),
    ('.alias("s"))', '.alias("s")).withColumn("id", F.md5("k")).withColumn("half", F.col("s") / 2)'),
)


@pytest.mark.parametrize(
    ("change", "verdict", "rules"),
    [
        (("md5", "upper"), Verdict.BACKUP, ["output-column-redefined", "sink-column-redefined"]),
        (("/ 2", "/ 3"), Verdict.RESUME, ["output-column-redefined"]),
        (('"id", "s")', 'F.upper("id").alias("id"), "s")'), Verdict.BACKUP, ["sink-function-may-write-elsewhere"]),
        (
            ("    batch", "    if batch.isEmpty():\n        return\n    batch"),
            Verdict.RESUME,
            ["sink-function-changed"],
        ),
        (("select", "coalesce(1).select"), Verdict.RESUME, ["sink-function-changed"]),
        (
            ('withColumn("id"', 'withColumn("number"'),
            Verdict.REFUSE,
            ["rewritten-below-state", "sink-column-missing"],
        ),
    ],
    ids=[
        "a key of the query",
        "a value of the query",
        "a key of the function",
        "a guard",
        "tuning",
        "a key that is gone",
    ],
)
def test_a_changed_column_that_a_sink_function_writes_gets_backup(
    house: House, change: tuple[str, str], verdict: Verdict, rules: list[str]
) -> None:
    """A changed column that a sink function writes gets ``BACKUP``, whether the query or the function computes it, and
    a missing one gets ``REFUSE``; other columns, a guard and tuning get ``RESUME``.
    """
    text = JOB
    for old, new in KEYED:
        text = text.replace(old, new)
    house.deployed = house.write("deployed", text)
    found = house.rules(*KEYED, change)
    output = {"output-column-added", "output-column-removed"}
    assert (found[0], sorted({*found[1]} - output)) == (verdict, rules)


def test_a_missing_column_read_by_a_sink_function_is_refused_by_line(house: House) -> None:
    """A column that the sink function reads and the query no longer has is refused with its name and line; a rehearsal
    would not find it, because it does not run the sink.
    """
    house.deployed = house.write("deployed", JOB.replace(KEYED[0][0], "batch.select(batch.s).toPandas()"))
    renamed = (KEYED[0][0], "batch.select(batch.s).toPandas()"), ('alias("s")', 'alias("total")')
    answer = house.ask(house.candidate(*renamed))
    assert answer.assessment is not None
    found = {each.rule: each for each in answer.assessment.queries["totals"].findings}["sink-column-missing"]
    assert (found.evidence, found.line) == ("column removed: `s`", "job.py:6")
    assert answer.assessment.verdict is Verdict.REFUSE


@pytest.mark.parametrize(
    ("changes", "verdict", "rule"),
    [
        ([('alias("s")', 'alias("total")')], Verdict.RESUME, "rewritten-below-state"),
        ([('groupBy("k")', 'groupBy(F.col("k").alias("customer"))')], Verdict.RESUME, "rewritten-below-state"),
        ([("F.sum", "F.max")], Verdict.SWITCH, "aggregate-function-changed"),
        ([('groupBy("k")', 'groupBy("k2")')], Verdict.SWITCH, "grouping-key-changed"),
        ([('groupBy("k")', 'groupBy("k", "k2")')], Verdict.SWITCH, "grouping-key-added"),
        ([('groupBy("k")', 'groupBy("k", "k2")')], Verdict.SWITCH, "refused-by-spark"),
        ([('F.sum("x")', 'F.sum(F.udf(lambda x: x + 1, "long")("x"))')], Verdict.SWITCH, "aggregate-input-changed"),
        ([("maxFilesPerTrigger", "maxBytesPerTrigger")], Verdict.RESUME, "rate-limit-changed"),
        (
            [("def write(", "def put("), ("ForeachBatch(write)", "ForeachBatch(put)")],
            Verdict.RESUME,
            "sink-function-renamed",
        ),
        ([(".json(params", ".option('multiLine', True).json(params")], Verdict.SWITCH, "source-selection-changed"),
        (
            [
                (
                    STREAM,
                    'spark.readStream.format("rate").load().selectExpr("string(value) as k", "value as x")',
                )
            ],
            Verdict.REFUSE,
            "source-cannot-be-replayed",
        ),
        (
            [("yield Query", "import uuid; sums = sums.filter(F.col('k') != str(uuid.uuid4())); yield Query")],
            Verdict.REFUSE,
            "plan-not-deterministic",
        ),
    ],
)
def test_a_change_gets_its_verdict_and_its_reason(
    made: House, changes: list[tuple[str, str]], verdict: Verdict, rule: str
) -> None:
    """Each change gets its verdict and the rule that explains it, from the comparison of plans, the rehearsal or the
    determinism check.
    """
    found, rules = made.rules(*changes)
    assert rule in rules
    assert found is verdict


def test_a_null_key_decides_whether_filling_nulls_is_safe(house: House) -> None:
    """Replacing nulls in a grouping key by ``coalesce`` gets ``RESUME`` if the state contains no null key."""
    filled = ('groupBy("k")', 'groupBy(F.coalesce("k", F.lit("?")).alias("k"))')
    verdict, rules = house.rules(filled)
    assert (verdict, "grouping-key-null-replaced" in rules) == (Verdict.RESUME, True)


def test_state_under_a_writing_driver_is_no_proof_of_absent_null_keys(house: House) -> None:
    """While a driver is still writing, a state without a null key proves nothing: the change gets ``SWITCH`` with a
    ``not-looked`` finding, because the next batch may add such a key.
    """
    filled = ('groupBy("k")', 'groupBy(F.coalesce("k", F.lit("?")).alias("k"))')
    assessment = house.ask(house.candidate(filled), served=True).assessment
    assert assessment is not None
    assert assessment.verdict is Verdict.SWITCH
    [told] = [each for each in assessment.queries["totals"].findings if each.rule == "not-looked"]
    assert told.evidence.startswith("a driver is still writing it")


def test_a_state_with_a_null_key_is_not_resumed(house: House, spark: SparkSession) -> None:
    """Negative control: with one null key in the state, the same change of the grouping key gets ``SWITCH``."""
    from pyspark.sql import functions as F

    shutil.rmtree(house.checkpoint)
    house.input = house.root / "other"
    house.input.mkdir()
    (house.input / "0.json").write_text('{"x": 1}\n{"k": "a", "x": 2}')
    rows = spark.readStream.schema("k string, k2 string, x long").json(str(house.input))
    writer = rows.groupBy("k").agg(F.sum("x").alias("s")).writeStream.outputMode("update")
    running = writer.option("checkpointLocation", str(house.checkpoint)).format("noop").trigger(availableNow=True)
    assert running.start().awaitTermination(120)
    house.deployed = house.write("deployed", JOB)
    verdict, rules = house.rules(('groupBy("k")', 'groupBy(F.coalesce("k", F.lit("?")).alias("k"))'))
    assert (verdict, "grouping-key-null-replaced" in rules) == (Verdict.SWITCH, True)


def test_without_a_rehearsal_the_plan_alone_decides(made: House) -> None:
    """Without a rehearsal, a breaking change is still found from the plan and gets ``SWITCH``, without findings of
    Spark.
    """
    answer = made.ask(made.candidate(('groupBy("k")', 'groupBy("k", "k2")')), rehearse=False)
    assert answer.assessment is not None
    assert [each.rule for each in answer.assessment.queries["totals"].findings if "spark" in each.rule] == []
    assert answer.assessment.verdict is Verdict.SWITCH
    assert answer.seconds is not None


def test_without_a_rehearsal_an_unchanged_job_is_not_resumed(made: House) -> None:
    """Without a rehearsal, an unchanged job gets ``BACKUP``, because it is unknown whether Spark would refuse it."""
    answer = made.ask(made.candidate(), rehearse=False)
    assert answer.assessment is not None
    assert [(each.rule, each.where) for each in answer.assessment.queries["totals"].findings] == [
        ("not-looked", "rehearsal")
    ]
    assert answer.assessment.verdict is Verdict.BACKUP


def test_a_job_that_is_as_the_deployed_one_is_built_once(made: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that equals the deployed job is built once; one that differs is built a second time to distinguish
    randomness from a change.
    """
    built: list[str] = []
    build = check_session.build_job
    monkeypatch.setattr(check_session, "build_job", lambda *given: built.append(given[1].root) or build(*given))
    candidate = made.candidate()
    assert made.ask(candidate).assessment is not None
    assert built.count(candidate.root) == 1
    candidate = made.candidate(('alias("s")', 'alias("total")'))
    assert made.ask(candidate).assessment is not None
    assert built.count(candidate.root) == 3


def remove_offsets(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")


def cut_metadata(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text("{")


def remove_state(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "state")


def newer_format(checkpoint: Path) -> None:
    file = checkpoint / "offsets" / "2"
    file.write_text(file.read_text().replace("v1", "v9", 1))


@pytest.mark.parametrize("damage", [remove_offsets, cut_metadata, remove_state, newer_format])
def test_a_damaged_checkpoint_is_refused_by_name(house: House, damage: Callable[[Path], None]) -> None:
    """A damaged checkpoint gets ``REFUSE`` with a ``checkpoint-`` rule, even if Spark would accept it."""
    damage(house.checkpoint)
    verdict, rules = house.rules()
    assert verdict is Verdict.REFUSE
    assert any(each.startswith("checkpoint-") for each in rules)


def test_a_missing_input_file_of_an_uncommitted_batch_is_refused(house: House) -> None:
    """A missing input file of an uncommitted batch gets ``REFUSE``, because Spark would silently run the batch without
    it.
    """
    remove("commits/2")(house.checkpoint)
    assert "input-of-open-batch-gone" not in house.rules()[1]
    (house.input / "2.json").rename(house.root / "away.json")
    try:
        verdict, rules = house.rules()
    finally:
        (house.root / "away.json").rename(house.input / "2.json")
    assert (verdict, "input-of-open-batch-gone" in rules) == (Verdict.REFUSE, True)


def test_an_uncommitted_batch_is_reported_only_without_a_serving_driver(house: House) -> None:
    """An uncommitted batch is reported as ``checkpoint-open-batch`` only without a serving driver, because a start
    would replay it.
    """
    remove("commits/2")(house.checkpoint)
    assert house.rules() == (Verdict.RESUME, ["checkpoint-open-batch"])
    served = house.ask(house.candidate(), served=True).assessment
    assert served is not None
    assert served.queries["totals"].findings == ()


def test_listed_but_unplanned_files_get_backup_only_without_a_serving_driver(house: House) -> None:
    """Source files that are listed but not planned get ``BACKUP`` without a serving driver, because a removed batch
    leaves the same traces, and no finding while a driver serves.
    """
    Tree.list_files(house.checkpoint, 3)
    assert house.rules() == (Verdict.BACKUP, ["checkpoint-unplanned-source-entry"])
    served = house.ask(house.candidate(), served=True).assessment
    assert served is not None
    assert (served.verdict, served.queries["totals"].findings) == (Verdict.RESUME, ())


@pytest.mark.parametrize(
    ("changes", "fields", "told"),
    [
        ([("rows = spark", "raise ValueError('no')\n    rows = spark")], {}, "job.py:10: ValueError: no"),
        ([('name="totals"', 'name="sums"')], {}, "declares no job totals"),
        ([], {"query": "elsewhere"}, "there is no query elsewhere"),
        (
            [
                (
                    "    yield Query",
                    "    yield Query('totals', sums, sink=ForeachBatch(write), output_mode='update')\n    yield Query",
                )
            ],
            {},
            "two queries named totals",
        ),
        ([], {"deployed": None}, "no deployed job is given to compare with"),
    ],
)
def test_bad_input_is_one_clear_line(
    made: House, changes: list[tuple[str, str]], fields: dict[str, object], told: str
) -> None:
    """Invalid input is answered with a single error line, without a verdict or a traceback."""
    answer = made.ask(made.candidate(*changes), **fields)
    assert answer.assessment is None
    assert told in answer.error
    assert "\n" not in answer.error


def test_the_checkpoint_of_another_query_is_never_resumed(house: House, spark: SparkSession) -> None:
    """The checkpoint of a different query gets ``SWITCH``, because the rehearsal finds the state of that query in
    it.
    """
    shutil.rmtree(house.checkpoint)
    rows = spark.readStream.schema("k string, k2 string, x long").json(str(house.input))
    writer = rows.dropDuplicates(["k", "x"]).writeStream.option("checkpointLocation", str(house.checkpoint))
    assert writer.format("noop").trigger(availableNow=True).start().awaitTermination(120)
    verdict, rules = house.rules()
    assert "refused-by-spark" in rules
    assert verdict is Verdict.SWITCH


def test_two_jobs_of_one_file_name_do_not_share_their_modules(house: House) -> None:
    """Two jobs with the same file name are each built with the helper module in their own folder, also in a second
    request.
    """
    for folder, key in (("deployed", "k"), ("candidate", "k2")):
        (house.root / folder).mkdir(exist_ok=True)
        (house.root / folder / "helper.py").write_text(f'KEY = "{key}"\n')
    text = JOB.replace('groupBy("k")', "groupBy(KEY)").replace(
        "from pyspark", "from helper import KEY\nfrom pyspark", 1
    )
    house.deployed = house.write("deployed", text)
    candidate = house.write("candidate", text)
    for _ in range(2):
        answer = house.ask(candidate)
        assert answer.assessment is not None, answer.error
        assert "grouping-key-changed" in [each.rule for each in answer.assessment.queries["totals"].findings]


TWO = JOB.replace(
    "    yield Query",
    """    maxima = rows.groupBy("k").agg(F.max("x").alias("s"))
    yield Query("maxima", maxima, sink=ForeachBatch(write), output_mode="update", trigger="availableNow")
    yield Query""",
)


@pytest.mark.parametrize("below", ["", "v0003"])
def test_the_parent_of_a_jobs_checkpoints_is_enough(house: House, below: str) -> None:
    """The check accepts the parent folder of a job's checkpoints: it finds each query's own checkpoint below it by
    name, in the newest version that holds one.
    """
    parent = house.root / "parent"
    for query in ("totals", "maxima"):
        shutil.copytree(house.checkpoint, parent / query / below)
    if below:
        (parent / "totals" / "v0002").mkdir()
    house.deployed = house.write("deployed", TWO)
    candidate = house.write("candidate", TWO.replace("F.sum", "F.avg"))
    answer = house.ask(candidate, checkpoints={"": str(parent)})
    assert answer.assessment is not None, answer.error
    found = {name: each.verdict for name, each in answer.assessment.queries.items()}
    assert found["totals"] is Verdict.SWITCH
    shutil.rmtree(parent / "maxima")
    assert "has no checkpoint of query maxima" in house.ask(candidate, checkpoints={"": str(parent)}).error
    alone = house.ask(candidate, checkpoints={"": str(parent)}, query="totals")
    assert alone.assessment is not None, alone.error


def test_a_stateless_query_causes_no_findings_about_the_state_format_of_others(
    house: House, spark: SparkSession
) -> None:
    """A stateless query, whose commits look like those of the state format without ids, does not lead to findings about
    the state format of a stateful query.
    """
    text = JOB.replace(
        "    yield Query",
        "    yield Query('copies', rows, sink=ForeachBatch(write), trigger='availableNow')\n    yield Query",
    )
    rows = spark.readStream.schema("k string, k2 string, x long").option("maxFilesPerTrigger", 1).json(str(house.input))
    writer = rows.writeStream.option("checkpointLocation", str(house.root / "copies")).format("noop")
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    house.deployed = house.write("deployed", text)
    both = {"totals": str(house.checkpoint), "copies": str(house.root / "copies")}
    answer = house.ask(house.write("candidate", text), checkpoints=both)
    assert answer.assessment is not None, answer.error
    assert {name: each.findings for name, each in answer.assessment.queries.items()} == {"totals": (), "copies": ()}


def test_candidates_leave_no_python_processes_behind(house: House, spark: SparkSession) -> None:
    """Each candidate's Python workers stop with its answer, so that no candidate runs in the environment of another
    one.
    """
    seen = []
    for number in (1, 2, 1):
        text = JOB.replace('F.sum("x")', f'F.sum(F.udf(lambda x: x + {number}, "long")("x"))')
        candidate = house.write(f"candidate{number}", text)
        ran = house.ask(candidate)
        assert ran.assessment is not None, ran.error
        rules = [each.rule for each in ran.assessment.queries["totals"].findings]
        assert (ran.assessment.verdict, "fails-on-the-last-batch" in rules) == (Verdict.SWITCH, False)
        seen.append(python_processes(spark))
    assert seen == [[], [], []]


def test_a_function_that_runs_has_a_process(house: House, spark: SparkSession) -> None:
    """Negative control: after a Python function has run, its worker process is found until it is stopped."""
    from pyspark.sql import functions as F

    assert spark.range(1).select(F.udf(lambda x: x + 1, "long")("id")).collect()[0][0] == 1
    assert python_processes(spark)


def python_processes(spark: SparkSession) -> list[str]:
    """Return the command lines of the Python processes below the JVM, after those that are being stopped have had a
    moment to exit.
    """
    jvm: Any = spark.sparkContext._gateway
    deadline = time.monotonic() + 5.0
    while True:
        below = psutil.Process(jvm.proc.pid).children(recursive=True)
        found = [" ".join(line) for each in below if (line := _command(each)) and "pyspark.daemon" in line]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_damage_that_a_second_look_does_not_confirm_is_ignored(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apparent damage that a second look does not confirm is ignored, because a driver was writing while the files were
    read.
    """
    (house.checkpoint / "offsets" / "2").rename(house.root / "away")
    (house.checkpoint / "commits" / "2").rename(house.root / "away too")
    torn = lasting.examine(LocalTree(house.checkpoint))
    assert torn
    shutil.copy(house.root / "away", house.checkpoint / "offsets" / "2")
    shutil.copy(house.root / "away too", house.checkpoint / "commits" / "2")
    looks = iter([torn, lasting.examine(LocalTree(house.checkpoint))])
    monkeypatch.setattr(lasting, "examine", lambda *given, **named: next(looks))
    assert house.rules() == (Verdict.RESUME, [])


def test_a_checkpoint_that_never_holds_still_is_not_resumed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that changes during every look gets ``BACKUP`` with a ``not-looked`` finding."""

    def changes(*given: object, **named: object) -> None:
        raise CheckpointChanged("offsets/2 was removed meanwhile")

    monkeypatch.setattr(lasting, "examine", changes)
    assert house.rules() == (Verdict.BACKUP, ["not-looked"])
