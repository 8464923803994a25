"""Provides what all tests of the simulation share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Disable log output, so that the simulated drivers of a schedule write no log lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
