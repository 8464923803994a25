"""Secrets out of Airflow connections."""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.errors import InvalidInput

pytestmark = pytest.mark.airflow


def _connection() -> Any:
    from airflow.sdk import Connection

    return Connection(
        conn_id="warehouse",
        conn_type="postgres",
        host="db",
        port=5432,
        login="keeper",
        password="s3cret",
        schema="sales",
        extra='{"token": "t0ken"}',
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("password", "s3cret"), ("login", "keeper"), ("host", "db"), ("port", "5432"), ("extra.token", "t0ken")],
)
def test_a_field_is_its_value(field: str, value: str) -> None:
    """Each field that a reference may name is read as text."""
    from streamkeeper.orchestration.connections import read_field

    assert read_field(_connection(), field) == value


def test_the_whole_connection_is_a_uri() -> None:
    """A sink's URL may be a whole connection."""
    from streamkeeper.orchestration.connections import read_field

    assert read_field(_connection(), "uri") == "postgres://keeper:s3cret@db:5432/sales?token=t0ken"


@pytest.mark.parametrize("field", ["passwrod", "extra.missing", "extra."])
def test_what_is_not_there_is_named_without_any_value(field: str) -> None:
    """The error names the reference; no field's value stands in it."""
    from streamkeeper.orchestration.connections import read_field

    with pytest.raises(InvalidInput) as caught:
        read_field(_connection(), field)
    assert f"secret://airflow/warehouse/{field}" in str(caught.value)
    assert "s3cret" not in str(caught.value)
