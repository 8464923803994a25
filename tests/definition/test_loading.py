"""Loading a job from its code: what is wrong is told with the job's own file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.definition import check_conf, load_job
from streamkeeper.errors import JobUnusable, Unsupported

HEAD = "from streamkeeper import Param, streaming_job\n"


def write(root: Path, text: str, name: str = "sales.py") -> Path:
    (root / name).write_text(HEAD + text)
    return root


def test_job_is_found_by_name(tmp_path: Path) -> None:
    """The file may declare more than one job; params come with it."""
    write(
        tmp_path,
        '@streaming_job(name="sales", params={"n": Param(int)})\ndef one(spark, params): ...\n'
        '@streaming_job(name="other")\ndef two(spark, params): ...\n',
    )
    job = load_job(tmp_path, "sales.py", "sales")
    assert (job.name, list(job.params)) == ("sales", ["n"])


def test_code_is_run_afresh(tmp_path: Path) -> None:
    """A module of the job that was loaded before from another bundle is never run again."""
    for number in (1, 2):
        root = tmp_path / str(number)
        root.mkdir()
        (root / "rates.py").write_text(f"RATE = {number}\n")
        write(root, 'from rates import RATE\n@streaming_job(name="sales")\ndef sales(spark, params): return RATE\n')
    first = load_job(tmp_path / "1", "sales.py", "sales")
    second = load_job(tmp_path / "2", "sales.py", "sales")
    assert [first.function(None, {}), second.function(None, {})] == [1, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nowhere_at_all\n", r"sales.py:2: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def broken(:\n", r"sales.py:2: SyntaxError"),
        ("raise SystemExit(3)\n", r"sales.py:2: SystemExit: 3"),
        ("1 / 0\n", r"sales.py:2: ZeroDivisionError: division by zero"),
        ("", r"declares no job sales \(it declares: none\)"),
        ('@streaming_job(name="other")\ndef f(s, p): ...\n', r"it declares: other"),
        (
            '@streaming_job(name="sales")\ndef f(s, p): ...\n@streaming_job(name="sales")\ndef g(s, p): ...\n',
            "declares the job sales 2 times",
        ),
        ('X = df.option("checkpointLocation", "/x")\n', r"sales.py:2: the job's own code names a checkpoint location"),
        ("def f(df): return df.options(checkpointLocation='/x')\n", r"names a checkpoint location"),
        ('C = {"spark.sql.streaming.checkpointLocation": "/x"}\n', r"names a checkpoint location"),
        ("def f(df): return df.writeStream\n", r"uses writeStream"),
    ],
)
def test_unusable_code_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    """File, line and reason; a checkpoint of its own says why it must go."""
    with pytest.raises(JobUnusable, match=told) as raised:
        load_job(write(tmp_path, text), "sales.py", "sales")
    assert "\n" not in str(raised.value)
    if "checkpoint" in told:
        assert "second owner" in str(raised.value)


def test_imported_modules_are_searched_for_checkpoints_too(tmp_path: Path) -> None:
    """A checkpoint hidden in a module that the job imports is found there."""
    (tmp_path / "writing.py").write_text('WHERE = "checkpointLocation"\n')
    write(tmp_path, 'import writing\n@streaming_job(name="sales")\ndef f(s, p): ...\n')
    with pytest.raises(JobUnusable, match="writing.py:1"):
        load_job(tmp_path, "sales.py", "sales")


def test_file_outside_the_root_is_refused(tmp_path: Path) -> None:
    """An entry cannot lead out of the bundle."""
    (tmp_path / "root").mkdir()
    write(tmp_path, "")
    with pytest.raises(JobUnusable, match="no job file"):
        load_job(tmp_path / "root", "../sales.py", "sales")


def test_confs_that_leave_streamkeepers_hands_are_refused() -> None:
    """Spark Connect, and a checkpoint location by conf."""
    check_conf({"spark.sql.shuffle.partitions": "2"})
    with pytest.raises(Unsupported, match="Spark Connect"):
        check_conf({"spark.remote": "sc://host"})
    with pytest.raises(Unsupported, match="Spark Connect"):
        check_conf({"spark.api.mode": "connect"})
    with pytest.raises(JobUnusable, match="second owner"):
        check_conf({"spark.sql.streaming.checkpointLocation": "/x"})
