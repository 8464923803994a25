"""``python -m streamkeeper.driver.check <conf as JSON>``: a process that runs compatibility checks.

It reads a CheckRequest per line from stdin and answers each with a CheckAnswer per line on stdout, in the same order,
in one Spark session; stdout has no other output. ``conf``: settings that only a starting Spark accepts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.driver.worker_server import Answering, answer_lines, end
from streamkeeper.model.coding import from_json
from streamkeeper.model.protocol.check_messages import CheckRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_checker(spark: SparkSession, scratch: Path, secrets: Mapping[str, str]) -> Answering:
    """Return a function that takes a line with a CheckRequest and returns the answer to it."""
    from streamkeeper.driver.check_session import Checker

    checker = Checker(spark, scratch, secrets)
    return lambda line: checker.answer(from_json(line, CheckRequest, where="request"))


if __name__ == "__main__":
    end(answer_lines(sys.argv[1:], "check", make_checker))
