"""What every test gets: the servers' fixtures, the order of the tiers, and no silent skips in CI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A text that only chance finds is for whoever works on it, not for the change that happens to be tested.
if os.environ.get("STREAMKEEPER_CI"):
    settings.load_profile("ci")

pytest_plugins = [
    "tests.servers",
    "tests.spark_session",
    "tests.checkpoints.tree_kinds",
]

TIERS = ("s3", "postgres", "airflow", "kafka", "spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first, so that no failure comes late; then the files that may take longest, and in each tier by tier.

    A long one that came last would keep one worker busy while the others have nothing left.
    """
    tiers = {item: _tier(item) for item in items}
    longest: dict[Path, float] = {}
    for item in items:
        if tiers[item]:
            longest[item.path] = max(longest.get(item.path, 0), _timeout_s(item))
    items.sort(key=lambda item: (tiers[item] > 0, -longest.get(item.path, 0) if tiers[item] else 0, tiers[item]))


def _tier(item: pytest.Item) -> int:
    """0 for a fast test."""
    return max((TIERS.index(tier) + 1 for tier in TIERS if item.get_closest_marker(tier)), default=0)


def _timeout_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None else float(item.config.getini("timeout"))


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
