"""A database of either kind for the tests of TableSink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.sinks.warehouse import Warehouse


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warehouse]:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        made = Warehouse(f"sqlite:///{tmp_path / 'warehouse.db'}")
    else:
        server, name = request.getfixturevalue("postgres_server"), f"test_{uuid4().hex[:12]}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        made = Warehouse(f"{server.rpartition('/')[0]}/{name}".replace("postgresql://", "postgresql+psycopg://"))
    yield made
    made.close()
