"""Loading a job from its code; faults are reported with the job's own file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.authoring.definition import check_conf, load_job
from streamkeeper.authoring.job_code import content_of, own_files
from streamkeeper.errors import JobUnusable, Unsupported

HEAD = "from streamkeeper import Param, streaming_job\n"


def write(root: Path, text: str, name: str = "sales.py") -> Path:
    (root / name).write_text(HEAD + text)
    return root


def test_job_is_found_by_name(tmp_path: Path) -> None:
    """A job is found by its name, with its params, in a file that declares several jobs."""
    write(
        tmp_path,
        '@streaming_job(name="sales", params={"n": Param(int)})\ndef one(spark, params): ...\n'
        '@streaming_job(name="other")\ndef two(spark, params): ...\n',
    )
    job = load_job(tmp_path, "sales.py", "sales")
    assert (job.name, list(job.params)) == ("sales", ["n"])


def test_a_second_bundle_runs_with_its_own_modules(tmp_path: Path) -> None:
    """A job from a second bundle runs with the second bundle's modules, even if modules of the same name were loaded
    from the first.
    """
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
def test_unusable_code_is_refused_with_a_one_line_reason(tmp_path: Path, text: str, told: str) -> None:
    """Unusable code is refused in one line with file, line and reason; a checkpoint location in the code is refused as
    a second checkpoint.
    """
    with pytest.raises(JobUnusable, match=told) as raised:
        load_job(write(tmp_path, text), "sales.py", "sales")
    assert "\n" not in str(raised.value)
    if "checkpoint" in told:
        assert "second checkpoint" in str(raised.value)


def test_imported_modules_are_searched_for_checkpoints_too(tmp_path: Path) -> None:
    """A checkpoint location in a module that the job imports is found, and the message names that module."""
    (tmp_path / "writing.py").write_text('WHERE = "checkpointLocation"\n')
    write(tmp_path, 'import writing\n@streaming_job(name="sales")\ndef f(s, p): ...\n')
    with pytest.raises(JobUnusable, match="writing.py:1"):
        load_job(tmp_path, "sales.py", "sales")


def test_namespace_folders_and_replaced_modules_are_reloaded_from_another_root(tmp_path: Path) -> None:
    """A folder without an ``__init__`` and an object that replaced its module in ``sys.modules`` are also reloaded when
    the job is loaded from a different root.
    """
    text = """
from space import rate
import lazy
@streaming_job(name="sales")
def f(s, p): return rate.RATE, lazy.rate
"""
    found = []
    for number in (1, 2):
        root = tmp_path / str(number)
        (root / "space").mkdir(parents=True)
        (root / "space" / "rate.py").write_text(f"RATE = {number}\n")
        (root / "lazy.py").write_text(
            f"import sys, types\nsys.modules[__name__] = types.SimpleNamespace(rate={number})\n"
        )
        write(root, text)
        found.append(load_job(root, "sales.py", "sales").function(None, {}))  # type: ignore[arg-type]
    assert found == [(1, 1), (2, 2)]


def test_job_code_files_exclude_environments_and_caches(tmp_path: Path) -> None:
    """The files of a job's code exclude virtual environments, installed packages, caches and ``.git`` folders below the
    root.
    """
    for name in ("job.py", "pkg/rates.json", ".env", ".venv/lib/x.py", "env/pyvenv.cfg", "env/lib/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for name in ("pkg/__pycache__/x.pyc", "lib/site-packages/x.py", "node_modules/x.js", ".git/config"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "pkg" / "loop").symlink_to(tmp_path)
    files = own_files(tmp_path)
    assert files is not None
    assert [str(each.relative_to(tmp_path)) for each in files] == [".env", "job.py", "pkg/rates.json"]


def test_the_content_hash_of_job_code_does_not_depend_on_its_location(tmp_path: Path) -> None:
    """The content hash of a job's code depends on its files but not on their location; more files than a bundle may
    hold have none.
    """
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, "X = 1\n")
    one = content_of(tmp_path / "one")
    assert one == content_of(tmp_path / "two") != ""
    (tmp_path / "two" / "a").write_text("")
    assert content_of(tmp_path / "two") != one
    for number in range(5_001):
        (tmp_path / "two" / f"{number}").touch()
    assert content_of(tmp_path / "two") == ""


def test_file_outside_the_root_is_refused(tmp_path: Path) -> None:
    """A job file outside the bundle's root is refused."""
    (tmp_path / "root").mkdir()
    write(tmp_path, "")
    with pytest.raises(JobUnusable, match="no job file"):
        load_job(tmp_path / "root", "../sales.py", "sales")


def test_confs_that_select_spark_connect_or_a_checkpoint_are_refused() -> None:
    """Confs that select Spark Connect or set a checkpoint location are refused; ordinary confs are accepted."""
    check_conf({"spark.sql.shuffle.partitions": "2"})
    with pytest.raises(Unsupported, match="Spark Connect"):
        check_conf({"spark.remote": "sc://host"})
    with pytest.raises(Unsupported, match="Spark Connect"):
        check_conf({"spark.api.mode": "connect"})
    with pytest.raises(JobUnusable, match="second checkpoint"):
        check_conf({"spark.sql.streaming.checkpointLocation": "/x"})
