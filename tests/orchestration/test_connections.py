"""Secrets read from Airflow connections."""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.errors import InvalidInput, StreamkeeperError

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
def test_a_connection_field_is_read_as_text(field: str, value: str) -> None:
    """Each field that a reference may name is read as text."""
    from streamkeeper.orchestration.connections import read_field

    assert read_field(_connection(), field) == value


def test_the_whole_connection_is_a_uri() -> None:
    """A reference to ``uri`` returns the whole connection as a URI, for example for a sink."""
    from streamkeeper.orchestration.connections import read_field

    assert read_field(_connection(), "uri") == "postgres://keeper:s3cret@db:5432/sales?token=t0ken"


@pytest.mark.parametrize("field", ["passwrod", "extra.missing", "extra."])
def test_a_missing_connection_field_is_named_without_any_value(field: str) -> None:
    """The error about a missing field names the reference and contains no value of the connection."""
    from streamkeeper.orchestration.connections import read_field

    with pytest.raises(InvalidInput) as caught:
        read_field(_connection(), field)
    assert f"secret://airflow/warehouse/{field}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "master"),
    [
        ("spark://one:7077", "spark://one:7077"),
        ('{"conn_type": "spark", "host": "spark://one", "port": 7077}', "spark://one:7077"),
        ('{"conn_type": "spark", "host": "spark://one:7077,two:7077"}', "spark://one:7077,two:7077"),
        ('{"conn_type": "spark", "host": "spark://one:7077", "extra": {"deploy-mode": "client"}}', "spark://one:7077"),
    ],
)
def test_a_spark_connection_names_a_master(monkeypatch: pytest.MonkeyPatch, written: str, master: str) -> None:
    """A Spark connection resolves to its master, whether it is written as a URI or as JSON."""
    from streamkeeper.orchestration.connections import resolve_master

    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", written)
    assert resolve_master("cluster") == master


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('{"conn_type": "spark", "host": "yarn"}', "'cluster' names yarn, which is not a standalone master"),
        ("spark://one", "names one, which is not a standalone master"),
        ('{"conn_type": "spark", "host": "spark://one:7077", "extra": {"deploy-mode": "cluster"}}', "deploy mode"),
        ('{"conn_type": "spark", "host": "spark://one:7077", "extra": {"keytab": "c2Vj"}}', "has a keytab"),
        ('{"conn_type": "spark", "host": "spark://one:7077", "extra": {"spark-home": "/s"}}', "Spark's provider"),
        (None, "there is no Airflow connection 'cluster'"),
    ],
)
def test_an_unusable_spark_connection_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, written: str | None, told: str
) -> None:
    """A Spark connection that is missing or unusable is refused by name, rather than replaced by a default cluster."""
    from streamkeeper.orchestration.connections import resolve_master

    if written is not None:
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", written)
    with pytest.raises(StreamkeeperError, match=told):
        resolve_master("cluster")
