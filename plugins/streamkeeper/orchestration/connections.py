"""Read secrets (``secret://airflow/CONN_ID[/field]``) and a Spark master from Airflow connections.

The master is set as ``STREAMKEEPER_MASTER=airflow://CONN_ID``. No secret reaches a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamkeeper.errors import InvalidInput, NotFound, Unsupported
from streamkeeper.model.settings.setting_parsers import check_standalone

if TYPE_CHECKING:
    from airflow.sdk import Connection

SCHEME = "airflow"
_FIELDS = "uri, password, login, host, port, schema or extra.KEY"


def resolve_connection(path: str) -> str:
    """Return the URL of an Airflow connection, or one of its fields; raises NotFound, InvalidInput.

    ``path``: ``CONN_ID`` for the URL, ``CONN_ID/field`` for the field.
    """
    from airflow.sdk.log import mask_secret

    name, _, field = path.partition("/")
    value = read_field(_connection(name), field or "uri")
    mask_secret(value)
    return value


def resolve_master(name: str) -> str:
    """Return the standalone master of a Spark connection; raises NotFound, InvalidInput or Unsupported.

    The connection is read as Airflow's Spark provider reads it, from the fields of its form or from a URI.
    """
    connection = _connection(name)
    where = f"the Airflow connection {name!r}"
    extra = connection.extra_dejson
    if extra.get("deploy-mode", "client") != "client":
        raise Unsupported(
            f"{where} has the deploy mode {extra['deploy-mode']!r}, but drivers are started on this machine, where"
            " their termination can be proven",
            hint="set the deploy mode to client",
        )
    if named := sorted({"keytab", "principal"} & extra.keys()):
        raise Unsupported(
            f"{where} has a {named[0]}, which a standalone master does not use", hint=f"remove the {named[0]}"
        )
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    try:
        master = str(SparkSubmitHook(conn_id=name)._resolve_connection()["master"])
    except (RuntimeError, ValueError) as error:
        raise InvalidInput(
            f"{where} is refused by Spark's provider: {error}", hint="correct the connection under Admin, Connections"
        ) from error
    check_standalone(f"{where} names {master}, which", master)
    return master


def _connection(name: str) -> Connection:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException:
        raise NotFound(
            f"there is no Airflow connection {name!r}", hint="create the connection under Admin, Connections"
        ) from None


def read_field(connection: Connection, field: str) -> str:
    """Return one field of a connection as text; raises InvalidInput for a field that is unknown or empty."""
    where = f"secret://{SCHEME}/{connection.conn_id}/{field}"
    if field.startswith("extra."):
        found = connection.extra_dejson.get(field.removeprefix("extra."))
    elif field in _READERS:
        found = _READERS[field](connection)
    else:
        raise InvalidInput(f"{where}: a connection has no field {field!r}", hint=f"use {_FIELDS}")
    if found is None or found == "":
        raise InvalidInput(f"{where} is empty", hint="fill in the field under Admin, Connections")
    return str(found)


_READERS: dict[str, Callable[[Connection], object]] = {
    "password": lambda connection: connection.password,
    "login": lambda connection: connection.login,
    "host": lambda connection: connection.host,
    "port": lambda connection: connection.port,
    "schema": lambda connection: connection.schema,
    "uri": lambda connection: connection.get_uri(),
}
