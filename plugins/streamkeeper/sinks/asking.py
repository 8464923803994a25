"""Asking an output, by its description alone, which batch of a checkpoint version it holds: no job's code is run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from streamkeeper.errors import InvalidInput, StreamkeeperError
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.sinks.databases import identity, open_engine, parse_url
from streamkeeper.sinks.sink_log import listed_files, newest_batch
from streamkeeper.sinks.staging import outputs_table


class OutputAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an output holds of a checkpoint version.

    ``unknown``: why nobody can tell, empty when it was told; ``batch``: the newest one, None when it holds none of it.
    ``down``: whether it should have answered and did not.
    """

    batch: int | None = None
    unknown: str = ""
    down: bool = False


def ask_output(sink: SinkDescription, owner: str, version: str, urls: Iterable[str]) -> OutputAnswer:
    """Ask the output itself. ``owner``: ``<job>/<query>``; ``urls``: where a table's own URL, with its password, may be
    among. What does not answer is told as unknown; nothing is raised and nothing is changed."""
    match sink.kind:
        case "file":
            return _ask_files(Path(sink.output), version)
        case "table":
            return _ask_table(sink.output, owner, version, urls)
        case _:
            return OutputAnswer(unknown="what a function has written cannot be asked")


def why_not_cut(sink: SinkDescription, version: str, batch: int) -> str:
    """Why readers could not be shown an output up to a batch of a version, and what is written after it anew.

    A table needs no cut: rows that come again replace those with their key. Empty where nothing speaks against it.
    """
    if sink.kind != "file":
        return ""
    try:
        listed_files(Path(sink.output) / version, last=batch)
    except (InvalidInput, OSError) as error:
        return error.message if isinstance(error, InvalidInput) else f"{sink.output} cannot be read: {error.strerror}"
    return ""


def _ask_files(root: Path, version: str) -> OutputAnswer:
    if not root.is_dir():
        return OutputAnswer(unknown=f"{root} is not there")
    try:
        return OutputAnswer(batch=newest_batch(root / version))
    except OSError as error:
        return OutputAnswer(unknown=f"{root} cannot be read: {error.strerror}", down=True)


def _ask_table(output: str, owner: str, version: str, urls: Iterable[str]) -> OutputAnswer:
    import sqlalchemy as sa

    database, _, table = output.rpartition("#")
    url = _url_of(database, urls)
    if not url:
        return OutputAnswer(unknown=f"no param of the release is the URL of {database}")
    path = parse_url(url).database
    if url.startswith("sqlite") and not (path and Path(path).is_file()):
        return OutputAnswer(unknown=f"{path} is not there")
    outputs = outputs_table(sa.MetaData())
    engine = open_engine(url, pooled=False, reading=True)
    try:
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(outputs.name):
                return OutputAnswer()
            told = sa.select(outputs.c.owner, outputs.c.version, outputs.c.batch_id)
            row = connection.execute(told.where(outputs.c.output == table)).one_or_none()
    except sa.exc.SQLAlchemyError as error:
        # Its text may name the user and the host, and the driver's own may hold more.
        return OutputAnswer(unknown=f"{database} does not answer: {type(error).__name__}", down=True)
    finally:
        engine.dispose()
    if row is None or row.version is None:
        return OutputAnswer()
    if row.owner != owner:
        return OutputAnswer(unknown=f"table {table} is written by {row.owner}")
    if row.version != version:
        return OutputAnswer(unknown=f"table {table} was written by checkpoint version {row.version} since")
    return OutputAnswer(batch=row.batch_id)


def _url_of(database: str, urls: Iterable[str]) -> str:
    """The URL of a database among others; a SQLite file needs no more than its identity."""
    for each in urls:
        try:
            if identity(parse_url(each)) == database:
                return each
        except StreamkeeperError:
            continue
    return database if database.startswith("sqlite:") else ""
