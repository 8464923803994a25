"""One installation for a whole file of tests, and its Airflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.rest import AirflowApi
from tests.integration.installation import CONNECTION, InstalledAirflow


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledAirflow]:
    """Its drivers and its Airflow are stopped at the end."""
    made = InstalledAirflow(tmp_path_factory.mktemp("installation"))
    yield made
    made.system.stop()


@pytest.fixture(scope="module")
def api(installation: InstalledAirflow) -> AirflowApi:
    """Airflow, started, with the connection the job's parameters name."""
    api = installation.start().api
    api.add_connection(CONNECTION, "generic", password=installation.secret)
    return api
