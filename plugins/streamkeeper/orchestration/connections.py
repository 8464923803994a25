"""Secrets from Airflow connections: ``secret://airflow/CONN_ID[/field]``, without the value ever reaching a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamkeeper.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from airflow.sdk import Connection

SCHEME = "airflow"
_FIELDS = "uri, password, login, host, port, schema or extra.KEY"


def resolve_connection(path: str) -> str:
    """The value behind ``CONN_ID`` (its URL) or ``CONN_ID/field``; raises NotFound or InvalidInput."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException
    from airflow.sdk.log import mask_secret

    name, _, field = path.partition("/")
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException:
        raise NotFound(f"there is no Airflow connection {name!r}", hint="make it under Admin, Connections") from None
    value = read_field(connection, field or "uri")
    mask_secret(value)
    return value


def read_field(connection: Connection, field: str) -> str:
    """One field of a connection as text; raises InvalidInput when there is no such field or it is empty."""
    where = f"secret://{SCHEME}/{connection.conn_id}/{field}"
    if field.startswith("extra."):
        found = connection.extra_dejson.get(field.removeprefix("extra."))
    elif field in _READERS:
        found = _READERS[field](connection)
    else:
        raise InvalidInput(f"{where}: a connection has no field {field!r}", hint=f"use {_FIELDS}")
    if found is None or found == "":
        raise InvalidInput(f"{where} is empty", hint="fill it in under Admin, Connections")
    return str(found)


_READERS: dict[str, Callable[[Connection], object]] = {
    "password": lambda connection: connection.password,
    "login": lambda connection: connection.login,
    "host": lambda connection: connection.host,
    "port": lambda connection: connection.port,
    "schema": lambda connection: connection.schema,
    "uri": lambda connection: connection.get_uri(),
}
