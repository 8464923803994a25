"""The databases that a TableSink can write to: which URLs are accepted, and how a connection behaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamkeeper.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

BUSY_TIMEOUT_S = 30


def parse_url(text: str) -> URL:
    """The URL of a SQLite file or a PostgreSQL database; raises InvalidInput or Unsupported, never with a secret."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    if not isinstance(text, str):
        raise InvalidInput(f"a table's url is text, not {type(text).__name__}", hint=_HINT)
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
    return url


def identity(url: URL) -> str:
    """What the database is, without user, password or options: two URLs of one database have one identity."""
    from sqlalchemy import URL

    plain = URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
    return plain.render_as_string(hide_password=True)


def open_engine(text: str, *, pooled: bool, reading: bool = False) -> Engine:
    """An engine; a SQLite one waits for locks, uses WAL, and takes the write lock when a transaction begins.

    ``reading``: a transaction changes nothing, keeps nobody from writing, and sees all tables as of one moment.
    """
    from sqlalchemy import NullPool, QueuePool, create_engine, event

    url = parse_url(text)
    sqlite = url.get_backend_name() == "sqlite"
    arguments: dict[str, Any] = {"options": f"-c lock_timeout={BUSY_TIMEOUT_S * 1000}"}
    if sqlite:
        arguments = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    pool = QueuePool if pooled else NullPool
    engine = create_engine(url, poolclass=pool, connect_args=arguments, hide_parameters=True)
    if sqlite:
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_deferred if reading else _begin_immediate)
    elif reading:
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine


def lock_creation(connection: Connection) -> None:
    """Let no other transaction create tables meanwhile: PostgreSQL's CREATE IF NOT EXISTS alone can collide."""
    from sqlalchemy import text

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(7302641980023)"))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # Python's sqlite3 would otherwise begin transactions by itself, deferred, and fail on upgrade instead of waiting.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_deferred(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN DEFERRED")


_HINT = "use sqlite:////absolute/path.db or postgresql+psycopg://user@host/database"
