"""Tests Streamkeeper's own lines in an instance's log."""

from __future__ import annotations

import io
import logging
import logging.config
import re

from streamkeeper.system.log_lines import own_logger, sentence_of


def test_a_log_line_names_job_instance_and_query_and_stays_one_line() -> None:
    """A log line contains time, level, logger, job, instance and query and then the sentence, in one line even if the
    sentence has several.
    """
    out = io.StringIO()
    log = own_logger("streamkeeper", logging.StreamHandler(out), job="sales", instance="r7-1")
    log.warning("%s", "it waits\nfor its source: 100 %", extra={"query": "totals"})
    (line,) = out.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 WARNING streamkeeper job=sales instance=r7-1 query=totals: "
        r"it waits for its source: 100 %",
        line,
    )
    assert sentence_of(line) == "it waits for its source: 100 %"


def test_log_lines_of_spark_and_the_job_are_returned_unchanged() -> None:
    """Lines of Spark and of the job are returned unchanged, whatever they begin with."""
    for line in ("26/11/23 19:26:46 ERROR Executor: gone: really", "streamkeeper: mine", "", "a: b"):
        assert sentence_of(line) == line


def test_a_job_that_configures_logging_does_not_disable_the_streamkeeper_logger() -> None:
    """Streamkeeper's logger still writes after a job calls ``dictConfig``, which disables all existing loggers."""
    out, known = io.StringIO(), logging.getLogger("streamkeeper.tests.known")
    log = own_logger("streamkeeper", logging.StreamHandler(out))
    logging.config.dictConfig({"version": 1})
    log.info("still here")
    assert known.disabled
    assert out.getvalue().endswith("still here\n")
