"""Tests of ``streamkeeper check`` as a person or a pipeline runs it: exit codes, JSON, batches of requests, and clear
refusals.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from streamkeeper.cli.check_requests import CheckOptions, read_request, request_of
from streamkeeper.cli.main import app
from streamkeeper.errors import InvalidInput, NotFound
from streamkeeper.operations.jobs.installation import Installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """
from pyspark.sql import functions as F
from streamkeeper import ForeachBatch, Param, Query, streaming_job

print("a job may print")

@streaming_job(name="totals", params={"input": Param(str), "factor": Param(int, default=1)})
def totals(spark, params):
    rows = spark.readStream.schema("k string, x long").json(params["input"])
    sums = rows.groupBy("k").agg(F.sum(F.col("x") * params["factor"]).alias("s"))
    yield Query("totals", sums, sink=ForeachBatch(print), output_mode="update", trigger="availableNow")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create two job files, one that sums and one that takes the maximum, and their input."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a", "x": 1}\n')
    (tmp_path / "sums.py").write_text(JOB)
    (tmp_path / "maxima.py").write_text(JOB.replace("F.sum", "F.max"))
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


@pytest.fixture
def checkpoint(place: Path, spark: SparkSession) -> Path:
    """Run the summing job's query and return the checkpoint that it writes."""
    from pyspark.sql import functions as F

    rows = spark.readStream.schema("k string, x long").json(str(place / "in"))
    writer = rows.groupBy("k").agg(F.sum(F.col("x") * 1).alias("s")).writeStream.outputMode("update")
    running = writer.option("checkpointLocation", str(place / "checkpoint")).format("noop").trigger(availableNow=True)
    assert running.start().awaitTermination(120)
    return place / "checkpoint"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["check", *words])


def asked(place: Path, candidate: str, **more: object) -> dict[str, object]:
    return {
        "deployed": f"{place}/sums.py:totals",
        "candidate": f"{place}/{candidate}:totals",
        "checkpoint": str(place / "checkpoint"),
        "params": {"input": str(place / "in")},
        **more,
    }


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_verdict_is_the_exit_code(place: Path, checkpoint: Path) -> None:
    """The exit code reports the verdict: 11 with the finding and the remedy for a changed aggregate, 0 for unchanged
    code. ``--json`` prints the verdict, the findings and the seconds.
    """
    words = ["--deployed", f"{place}/sums.py:totals", "--checkpoint", str(checkpoint)]
    words += ["--params", json.dumps({"input": str(place / "in")})]
    found = run(*words, "--candidate", f"{place}/maxima.py:totals")
    assert found.exit_code == 11, found.stderr
    assert "aggregate-function-changed" in found.stdout
    assert "new checkpoint version" in found.stdout
    same = run(*words, "--candidate", f"{place}/sums.py:totals", "--json")
    assert same.exit_code == 0, same.stderr
    answer = json.loads(same.stdout)
    assert answer["verdict"] == "RESUME"
    assert answer["queries"] == {"totals": {"verdict": "RESUME", "findings": []}}
    assert set(answer["seconds"]) == {"describe", "rehearse", "total"}


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_many_requests_are_answered_line_by_line(place: Path, checkpoint: Path) -> None:
    """``--batch`` answers every request in order with one JSON object per line; a request that fails gets an error and
    the remaining requests are still answered.
    """
    (place / "broken.py").write_text(JOB + "\nimport no_such_module\n")
    lines = [
        asked(place, "sums.py"),
        asked(place, "broken.py"),
        {"candidate": f"{place}/sums.py:totals"},
        asked(place, "sums.py", candidate_params={"factor": 2}),
        asked(place, "sums.py", candidate_conf={"spark.sql.shuffle.partitions": "7"}, no_rehearsal=True),
        asked(place, "sums.py", query="elsewhere"),
        asked(place, "sums.py", checkpoint=str(place / "in")),
        asked(place, "sums.py", surprise=1),
    ]
    (place / "requests.jsonl").write_text("\n".join(json.dumps(each) for each in lines))
    found = run("--batch", str(place / "requests.jsonl"))
    assert found.exit_code == 0, found.stderr
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert [each.get("verdict") for each in answers] == ["RESUME", None, None, "SWITCH", "BACKUP", None, None, None]
    assert "no_such_module" in answers[1]["error"]
    assert "no deployed job is named" in answers[2]["error"]
    found = [each["rule"] for each in answers[3]["queries"]["totals"]["findings"]]
    assert found == ["aggregate-input-changed", "sink-column-redefined"]
    assert [each["rule"] for each in answers[4]["queries"]["totals"]["findings"]] == ["setting-pinned", "not-looked"]
    assert "there is no query elsewhere" in answers[5]["error"]
    assert "is not a checkpoint" in answers[6]["error"]
    assert "surprise" in answers[7]["error"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no candidate is named"),
        (["--candidate", "job.py:x"], "no deployed job is named"),
        (["--candidate", "job.py:x", "--deployed", "job.py:x"], "no checkpoint is named"),
        (["--candidate", "job.py:x", "--job", "x", "--deployed", "job.py:x"], "--job replaces"),
        (["--batch", "b", "--candidate", "job.py:x"], "--batch takes its requests only from the file"),
        (["--changed", "--candidate", "job.py:x"], "--changed finds its jobs itself"),
        (["--changed", "--batch", "b"], "--batch prints one JSON object per line, and cannot be used with"),
        (["--changed", "--markdown", "/nowhere/comment.md"], "--markdown /nowhere/comment.md cannot be written"),
        (["--markdown", "comment.md"], "--markdown reports all changed jobs"),
        (["--diff", "--json"], "--json prints one JSON object, so --diff cannot print too"),
        (["--diff-to", "page.txt"], "the file name must end in .md or .html"),
        (["--batch", "/nowhere/b"], "--batch /nowhere/b cannot be read"),
        (["--candidate", "job.py", "--deployed", "job.py:x", "--checkpoint", "/tmp"], "is not FILE:NAME"),
        (["--candidate", "/nowhere/job.py:x", "--deployed", "/nowhere/job.py:x", "--checkpoint", "/tmp"], "job file"),
        (["--candidate", "job.py:x", "--params", "{"], "--params is not JSON"),
    ],
)
def test_missing_or_invalid_options_are_refused_before_spark_starts(words: list[str], told: str) -> None:
    """A missing, invalid or contradictory option is refused with exit code 2, one line on stderr and nothing on
    stdout.
    """
    found = run(*words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert told in found.stderr
    assert len(found.stderr.splitlines()) == 1


def nowhere() -> Installation:
    raise AssertionError("no site is needed")


def test_the_candidate_inherits_params_and_confs(place: Path) -> None:
    """The candidate inherits the deployed job's params and conf, so that a request has to contain only the values that
    differ.
    """
    (place / "checkpoint").mkdir()
    line = asked(
        place, "maxima.py", candidate_params={"factor": 3}, conf={"a": "1", "b": "2"}, candidate_conf={"b": "3"}
    )
    request = request_of(read_request(json.dumps(line)), nowhere)
    assert request.candidate.params == {"input": str(place / "in"), "factor": 3}
    assert request.candidate.conf == {"a": "1", "b": "3"}
    assert request.deployed is not None
    assert request.deployed.params == {"input": str(place / "in")}


def test_a_checkpoint_that_does_not_exist_is_named(place: Path) -> None:
    """A request whose checkpoint does not exist is refused with NotFound while it is read, before Spark is needed."""
    with pytest.raises(NotFound, match="does not exist"):
        request_of(read_request(json.dumps(asked(place, "sums.py"))), nowhere)


def test_a_registered_job_without_a_current_release_is_refused(tmp_path: Path) -> None:
    """A check against a registered job is refused while the job has no current release, and an invalid job name is
    refused as invalid input.
    """
    site = Installation.from_environment({**os.environ, "STREAMKEEPER_HOME": str(tmp_path)})
    with pytest.raises(NotFound, match="job totals has no current release"):
        request_of(CheckOptions(candidate="job.py:x", job="totals"), lambda: site)
    with pytest.raises(InvalidInput, match="job name"):
        request_of(CheckOptions(candidate="job.py:x", job="../totals"), lambda: site)
