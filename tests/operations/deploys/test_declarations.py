"""What a job's file declares: told without Spark where it can be, and left to a driver where only that can know."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamkeeper.model.manifests.declaration import Declaration
from streamkeeper.model.manifests.params import Param
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.deploys import declarations
from streamkeeper.operations.deploys.declarations import ask_declaration
from streamkeeper.registry.bundles import build_bundle

JOB = """
from pyspark.sql import SparkSession, functions as F
from streamkeeper import Param, streaming_job

@streaming_job(name="orders", params={"input": Param(str, help="where"), "share": Param(float, default=0.5),
                                      "end": Param(str, default=None)})
def orders(spark, params):
    yield from ()
"""


def ask(tmp_path: Path, source: str, job: str = "orders") -> Declaration:
    jobs = tmp_path / "jobs"
    jobs.mkdir(exist_ok=True)
    (jobs / f"{job}.py").write_text(source)
    settings = Settings(
        store=str(tmp_path / "store"), checkpoints=str(tmp_path / "cp"), jobs=str(jobs), home=str(tmp_path)
    )
    bundle = build_bundle(jobs, job)
    return ask_declaration(settings, bundle.data, bundle.entry, job)


def test_params_come_as_they_were_declared(tmp_path: Path) -> None:
    """In their order, with types, defaults and help."""
    found = ask(tmp_path, JOB).declared
    assert found == {
        "input": Param(str, help="where"),
        "share": Param(float, default=0.5),
        "end": Param(str, default=None),
    }
    assert list(found) == ["input", "share", "end"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("import no_such_library", "orders.py:10: ModuleNotFoundError: No module named 'no_such_library'"),
        ("nothing_of_the_kind", "orders.py:10: NameError"),
        ("{}['key']", "orders.py:10: KeyError"),
        ("open('no-such-file')", "orders.py:10: FileNotFoundError"),
        ("raise SystemExit('not today')", "orders.py:10: SystemExit: not today"),
        ("def f():\n    f()\nf()", "RecursionError: maximum recursion depth"),
        ("Param(list); streaming_job(name='x', params={'a': Param(list)})", "param a has the unsupported type list"),
        ("streaming_job(name='x', health={'lag': 3})", "lag"),
    ],
)
def test_a_failing_import_is_told(tmp_path: Path, more: str, told: str) -> None:
    """With its file and line, where a session would have changed nothing."""
    assert told in ask(tmp_path, f"{JOB}\n{more}\n").error


def test_the_file_sees_what_a_driver_gives_it_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its home and the store are there; keys of whoever asks, as Airflow's, are not."""
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "sesame")
    monkeypatch.setenv("STREAMKEEPER_SECRET_WAREHOUSE", "sesame")
    look = "import os\nos.environ['STREAMKEEPER_STORE']\nassert 'sesame' not in os.environ.values()\n"
    assert ask(tmp_path, f"{JOB}\n{look}").params is not None
    assert "KeyError" in ask(tmp_path, f"{JOB}\nimport os\nos.environ['AIRFLOW__CORE__FERNET_KEY']\n").error


def test_a_file_without_the_job_says_which_it_has(tmp_path: Path) -> None:
    """Also where the decorator goes by another name."""
    renamed = JOB.replace("import Param, streaming_job", "import Param, streaming_job as job").replace("@str", "@job#")
    assert "declares no job orders (it declares: none)" in ask(tmp_path, "x = 1\n").error
    assert "declares no job sales (it declares: orders)" in ask(tmp_path, JOB, "sales").error
    aliased = renamed.replace("@job#eaming_job(", "@job(")
    assert ask(tmp_path, aliased).params is not None


@pytest.mark.parametrize(
    "more",
    [
        "F.col('amount')",
        "SparkSession.getActiveSession().conf",
        "try:\n    SparkSession.builder.getOrCreate()\nexcept Exception:\n    raise KeyError('no session')",
        "import os; os._exit(3)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1')",
    ],
)
def test_what_only_a_driver_can_know_is_left_to_it(tmp_path: Path, more: str) -> None:
    """A file that wants a session, an answer from outside, or ends the process: no error, and no JVM is started."""
    assert ask(tmp_path, f"{JOB}\n{more}\n") == Declaration()


def test_an_import_that_takes_too_long_is_left_to_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it has started keeps nobody waiting, whether it ends or not."""
    left = f"{JOB}\nimport subprocess, threading, time\nsubprocess.Popen(['sleep', '30'])\n"
    left += "threading.Thread(target=time.sleep, args=(30,)).start()\n"
    began = time.monotonic()
    assert ask(tmp_path, left).params is not None
    monkeypatch.setattr(declarations, "PATIENCE_S", 2.0)
    assert ask(tmp_path, f"{left}\ntime.sleep(60)\n") == Declaration()
    assert time.monotonic() - began < 25
