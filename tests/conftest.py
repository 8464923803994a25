"""What every test gets: the servers' fixtures, the order of the tiers, and no silent skips in CI."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

# A text that only chance finds is for whoever works on it, not for the change that happens to be tested.
if os.environ.get("STREAMKEEPER_CI"):
    settings.load_profile("ci")

pytest_plugins = [
    "tests.servers",
    "tests.spark_session",
    "tests.browser",
    "tests.checkpoints.tree_kinds",
]

TIERS = ("s3", "hdfs", "postgres", "airflow", "kafka", "spark")


ONE_AIRFLOW = "tests/integration/one_airflow"
"""Its files share an Airflow, which starts once: they go to one worker, one after the other."""
LONGEST = tuple(
    f"tests/{each}"
    for each in (
        "integration/one_airflow/",
        "integration/test_crash_points.py",
        "integration/test_lives.py",
        "integration/test_previous_version.py",
        "driver/test_doors.py",
        "driver/test_dual_run.py",
        "snapshots/test_live.py",
    )
)
"""One to ten minutes each, much of it waiting. They begin first: at the end a worker would run the last one alone."""


class FilesToWorkers(LoadFileScheduling):
    """A file to each worker; those of one Airflow count as one."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_AIRFLOW if nodeid.startswith(f"{ONE_AIRFLOW}/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesToWorkers | None:
    """For ``--dist loadfile``."""
    return FilesToWorkers(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Beside pytest's own."""
    parser.addoption("--storage", action="store_true", help="run the lives on every kind of storage, too")
    parser.addoption("--kubernetes", action="store_true", help="run what needs a node of Kubernetes, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests that this run is of: fast ones first, then a tier at a time, so that a process starts each server once.

    With several workers the longest files go first of all.
    """
    for group in ("storage", "kubernetes"):
        if not config.getoption(f"--{group}"):
            left_out = [item for item in items if item.get_closest_marker(group)]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]
    items.sort(key=_tier_of)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def _tier_of(item: pytest.Item) -> int:
    return max((TIERS.index(each) + 1 for each in TIERS if item.get_closest_marker(each)), default=0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failure: everything that tests need can be had there."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("STREAMKEEPER_CI") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("\nSTREAMKEEPER_CI: skipped tests are failures here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it."""
    for variable in [each for each in os.environ if each.startswith("STREAMKEEPER_") and each != "STREAMKEEPER_CI"]:
        monkeypatch.delenv(variable)
