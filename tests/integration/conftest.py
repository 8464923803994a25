"""One installation for a whole file of tests, and its Airflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.rest import AirflowApi
from tests.integration.installation import CONNECTION, Installation


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Its drivers and its Airflow are stopped at the end."""
    made = Installation(tmp_path_factory.mktemp("installation"))
    yield made
    made.system.stop()


@pytest.fixture(scope="module")
def api(installation: Installation) -> AirflowApi:
    """Airflow, started, with the connection the job's parameters name."""
    api = installation.start().api
    api.add_connection(CONNECTION, "generic", password=installation.secret)
    return api
