"""What a job's file declares: read without Spark if possible, and left to a driver if only a driver can determine
it.
"""

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


def test_params_are_returned_in_their_declared_order_with_types(tmp_path: Path) -> None:
    """The declared params are returned in their order, with types, defaults and help."""
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
def test_a_failing_import_is_reported_with_file_and_line(tmp_path: Path, more: str, told: str) -> None:
    """An import that fails without any use of a Spark session is reported with its error, and with its file and
    line.
    """
    assert told in ask(tmp_path, f"{JOB}\n{more}\n").error


def test_the_file_sees_the_driver_environment_but_no_caller_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file sees the environment of a driver, such as the store, but not the caller's secrets, such as Airflow's
    keys.
    """
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "sesame")
    monkeypatch.setenv("STREAMKEEPER_SECRET_WAREHOUSE", "sesame")
    look = "import os\nos.environ['STREAMKEEPER_STORE']\nassert 'sesame' not in os.environ.values()\n"
    assert ask(tmp_path, f"{JOB}\n{look}").params is not None
    assert "KeyError" in ask(tmp_path, f"{JOB}\nimport os\nos.environ['AIRFLOW__CORE__FERNET_KEY']\n").error


def test_a_file_without_the_job_is_reported_with_its_declared_jobs(tmp_path: Path) -> None:
    """A file that does not declare the job is reported with the jobs that it declares; a decorator imported under an
    alias is recognized.
    """
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
def test_a_file_that_needs_a_driver_returns_an_empty_declaration(tmp_path: Path, more: str) -> None:
    """A file that uses a session, calls a remote service or exits the process returns an empty declaration without an
    error.
    """
    assert ask(tmp_path, f"{JOB}\n{more}\n") == Declaration()


def test_an_import_over_the_time_limit_returns_an_empty_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that exceeds the time limit returns an empty declaration, and threads and processes that the file has
    started delay neither outcome.
    """
    left = f"{JOB}\nimport subprocess, threading, time\nsubprocess.Popen(['sleep', '30'])\n"
    left += "threading.Thread(target=time.sleep, args=(30,)).start()\n"
    began = time.monotonic()
    assert ask(tmp_path, left).params is not None
    monkeypatch.setattr(declarations, "PATIENCE_S", 2.0)
    assert ask(tmp_path, f"{left}\ntime.sleep(60)\n") == Declaration()
    assert time.monotonic() - began < 25
