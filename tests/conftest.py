"""Shared test setup: the fixtures of the servers, the order of the tiers, and failing on skipped tests in CI."""

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

GROUPS = {"storage": ("storage", "hdfs"), "kubernetes": ("kubernetes",)}
"""Option -> the markers of the tests that run only with it."""

TIERS = ("s3", "hdfs", "postgres", "airflow", "kafka", "spark")


ONE_AIRFLOW = "tests/integration/one_airflow"
"""The folder whose files share an Airflow that starts once: they run on one worker, one after the other."""


class FilesToWorkers(LoadFileScheduling):
    """A scheduler that sends each test file to one worker; the files that share an Airflow count as one file."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_AIRFLOW if nodeid.startswith(f"{ONE_AIRFLOW}/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesToWorkers | None:
    """Return the project's scheduler for ``--dist loadfile``."""
    return FilesToWorkers(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--storage`` and ``--kubernetes``."""
    parser.addoption("--storage", action="store_true", help="run the tests that take minutes or need HDFS, too")
    parser.addoption("--kubernetes", action="store_true", help="run what needs a node of Kubernetes, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the groups that were not requested, and run fast tests first and then one tier at a time, so that each
    server starts once and failures show up early.
    """
    for group, markers in GROUPS.items():
        if not config.getoption(f"--{group}") and not (group == "storage" and config.getoption("--on-hdfs")):
            left_out = [item for item in items if any(map(item.get_closest_marker, markers))]
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]
    items.sort(
        key=lambda item: max((TIERS.index(each) + 1 for each in TIERS if item.get_closest_marker(each)), default=0)
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn skipped tests into failures in CI, where everything that the tests need is available."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("STREAMKEEPER_CI") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("\nSTREAMKEEPER_CI: skipped tests are failures here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the ``STREAMKEEPER_*`` settings of the caller's environment from every test."""
    for variable in [each for each in os.environ if each.startswith("STREAMKEEPER_") and each != "STREAMKEEPER_CI"]:
        monkeypatch.delenv(variable)
