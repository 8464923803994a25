from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.driver.session import session_conf

RETAINED = ("spark.sql.ui.retainedExecutions", "spark.ui.retainedJobs", "spark.ui.retainedStages")


def test_spark_keeps_little_of_the_past_where_no_ui_shows_it(tmp_path: Path) -> None:
    """A driver runs for weeks: what Spark keeps of a thousand executions is heap that nobody looks at."""
    conf = session_conf({}, tmp_path, "job")
    assert [conf[key] for key in RETAINED] == ["20"] * 3


@pytest.mark.parametrize("given", [{"spark.ui.enabled": "true"}, {"spark.ui.enabled": "True"}])
def test_a_job_with_a_ui_keeps_what_spark_keeps(tmp_path: Path, given: dict[str, str]) -> None:
    """Whoever switches the UI on looks at its past."""
    assert not {*RETAINED} & session_conf(given, tmp_path, "job").keys()


def test_a_releases_own_confs_win(tmp_path: Path) -> None:
    """What a release says counts, whatever the driver's default is."""
    assert session_conf({RETAINED[0]: "7"}, tmp_path, "job")[RETAINED[0]] == "7"
