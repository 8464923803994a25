"""The databases that a TableSink can write to: accepted URLs, the servers they lead to, and connection settings.

Only the URL, and the service that it names in ``~/.pg_service.conf``, locate an output. ``PGHOST`` and similar
variables are ignored, because tasks, drivers, executors and commands have different environments.
"""

from __future__ import annotations

import configparser
import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from streamkeeper.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

BUSY_TIMEOUT_S = 30
_PLACE = ("host", "hostaddr", "port", "dbname")
_ENVIRONMENT = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGSERVICE")
_SCHEMA = re.compile(r"(?:-c\s*|--)(search[_-]path|role)\s*=\s*((?:\\.|\S)*)", re.IGNORECASE)
_OF_SQLITE_S_DRIVER = frozenset(
    {"cached_statements", "check_same_thread", "detect_types", "isolation_level", "timeout", "uri"}
)


def parse_url(text: str) -> URL:
    """Parse the URL of a SQLite file or a PostgreSQL database.

    Raises InvalidInput or Unsupported, without secrets in the message.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    if not isinstance(text, str):
        raise InvalidInput(f"a table's url must be a string, not {type(text).__name__}", hint=_HINT)
    try:
        url = make_url(text)
        backend, driver = url.get_backend_name(), url.get_driver_name()
    except NoSuchModuleError as error:
        raise Unsupported(f"tables in {url.drivername} are not supported", hint=_HINT) from error
    except (ArgumentError, ValueError) as error:
        raise InvalidInput("the url of a table is not a database URL", hint=_HINT) from error
    if (backend, driver) not in {("sqlite", "pysqlite"), ("postgresql", "psycopg")}:
        raise Unsupported(f"tables in {url.drivername} are not supported", hint=_HINT)
    if backend == "sqlite" and (not url.database or url.database == ":memory:" or url.database.startswith("file:")):
        raise Unsupported("an in-memory SQLite database cannot be shared with Spark's workers", hint=_HINT)
    if backend == "sqlite" and url.database and not Path(url.database).is_absolute():
        raise InvalidInput(f"the SQLite path {url.database} is relative", hint="write sqlite:////absolute/path.db")
    if backend == "sqlite" and "uri" in url.query and not url.query.keys() <= _OF_SQLITE_S_DRIVER:
        raise Unsupported(
            "a SQLite URL with uri=true and parameters such as mode=ro opens a file other than the path in the URL",
            hint=_HINT,
        )
    return url


def identity(url: URL) -> str:
    """Return backend, host, port and database path of the URL. Records identify an output by this text, so the text
    must never change.
    """
    from sqlalchemy import URL

    plain = URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
    return plain.render_as_string(hide_password=True)


def server_of(url: URL) -> str:
    """Return the parts of the URL that determine the server and schema but are not in ``identity``; empty if the URL
    has no such parts.

    The result contains host, address, port and database from the URL's query or service, the user if the user
    determines the database, and ``search_path`` and ``role`` from its options. It never contains a password.
    """
    if url.get_backend_name() == "sqlite":
        return ""
    parameters = _parameters(url)
    plain = {"host": url.host, "port": url.port and str(url.port), "dbname": url.database}
    found = {name: parameters[name] for name in _PLACE if name in parameters and parameters[name] != plain.get(name)}
    if "dbname" not in parameters:
        found["user"] = parameters.get("user", "")
    # PostgreSQL accepts a setting's name in any case and with ``-`` for ``_``; the last one wins.
    for name, value in _SCHEMA.findall(parameters.get("options", "")):
        found[name.lower().replace("-", "_")] = value
    if "service" in parameters and not _service(parameters["service"]):
        found["service"] = parameters["service"]
    return urlencode(sorted(found.items()), quote_via=quote, safe="/:,$")


def resolved(text: str) -> str:
    """Return the URL with the parameters of its libpq ``service`` filled in. Another machine may define the service
    differently."""
    url = parse_url(text)
    if url.get_backend_name() == "sqlite" or "service" not in url.query:
        return text
    parameters = _parameters(url)
    plain = url.difference_update_query(["service"]) if _service(parameters.pop("service")) else url
    return plain.update_query_dict(parameters).render_as_string(hide_password=False)


def _parameters(url: URL) -> dict[str, str]:
    """Return libpq's parameters from a URL and its service, without those of the environment."""
    _, arguments = url.get_dialect()().create_connect_args(url)
    parameters = {name: str(value) for name, value in arguments.items() if value not in (None, "")}
    return {**_service(parameters["service"]), **parameters} if "service" in parameters else parameters


def _service(name: str) -> dict[str, str]:
    """Return the parameters of a service from ``~/.pg_service.conf``; empty if it is not defined there, so that only
    libpq's own directory may define it.
    """
    found = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",), comment_prefixes=("#",))
    try:
        found.read(Path.home() / ".pg_service.conf")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    return dict(found[name]) if name in found else {}


def _connect_arguments(url: URL) -> dict[str, str]:
    """Return connection arguments that make the URL's server explicit, whatever the environment sets, and that add a
    lock timeout to the options.
    """
    parameters = _parameters(url)
    place = {name: parameters[name] for name in _PLACE if name in parameters}
    if any(os.environ.get(name) for name in _ENVIRONMENT) and (
        "service" not in parameters or _service(parameters["service"])
    ):
        place = dict.fromkeys(_PLACE, "") | place
    options = f"-c lock_timeout={BUSY_TIMEOUT_S * 1000} {parameters.get('options', '')}"
    return {**place, "options": options.strip()}


def open_engine(text: str, *, pooled: bool, reading: bool = False) -> Engine:
    """Return an engine; a SQLite engine waits for locks, uses WAL, and takes the write lock when a transaction begins.

    ``reading``: a transaction changes nothing, does not block writers, and sees all tables as of one moment.

    No connection creates a SQLite file. A pooled connection is not reused after its SQLite file was replaced.
    """
    from sqlalchemy import NullPool, QueuePool, create_engine, event

    url = parse_url(text)
    sqlite = url.get_backend_name() == "sqlite"
    arguments: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    if not sqlite:
        arguments = _connect_arguments(url)
    pool = QueuePool if pooled else NullPool
    engine = create_engine(url, poolclass=pool, connect_args=arguments, hide_parameters=True)
    if sqlite:
        event.listen(engine, "do_connect", _must_have_file)
        event.listen(engine, "connect", _prepare_reader if reading else _prepare_sqlite)
        event.listen(engine, "connect", _note_file)
        event.listen(engine, "checkout", _must_be_its_file)
        event.listen(engine, "begin", _begin_deferred if reading else _begin_immediate)
    elif reading:
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine


def lock_creation(connection: Connection) -> None:
    """Make other transactions that call this function wait until this transaction finishes, so that only one creates
    tables at a time.

    In PostgreSQL, concurrent CREATE IF NOT EXISTS statements can collide. In SQLite, this function does nothing.
    """
    from sqlalchemy import text

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(7302641980023)"))


def _must_have_file(_dialect: object, _record: object, arguments: Sequence[Any], _named: object) -> None:
    # sqlite3 would create an empty database, which looks like an output without any batch.
    if not os.path.isfile(arguments[0]):
        missing = sqlite3.OperationalError(f"unable to open database file: {arguments[0]} is missing")
        missing.sqlite_errorname = "SQLITE_CANTOPEN"
        raise missing


def _note_file(connection: Any, record: Any) -> None:
    record.info["file"] = _file_of(connection)


def _must_be_its_file(connection: Any, record: Any, _proxy: object) -> None:
    # A connection keeps a deleted or replaced file open: rows written to it are lost.
    from sqlalchemy.exc import DisconnectionError

    if record.info.get("file") != _file_of(connection):
        raise DisconnectionError


def _file_of(connection: Any) -> tuple[int, int] | None:
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Otherwise Python's sqlite3 begins deferred transactions itself, which fail on upgrade instead of waiting.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _prepare_reader(connection: Any, _record: object) -> None:
    # The journal mode is stored in the file, so a reader leaves it unchanged.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA query_only = ON")


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_deferred(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN DEFERRED")


_HINT = "use sqlite:////absolute/path.db or postgresql+psycopg://user@host/database"


def may_be_there(url: str) -> bool:
    """Whether the database may exist. The result is False only for a SQLite file that is missing."""
    database = parse_url(url).database
    return not url.startswith("sqlite") or bool(database and os.path.exists(database))
