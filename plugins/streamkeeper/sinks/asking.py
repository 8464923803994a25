"""Asking an output, by its description alone, which batch of a checkpoint version it holds: no job's code is run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from streamkeeper.errors import InvalidInput, StreamkeeperError
from streamkeeper.model.manifest import SinkDescription
from streamkeeper.sinks.contract import Reconciliation
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


TAKES = {"table": "each row replaces the one with its key", "file": "and readers see the batches before them once"}
"""Kind -> how a sink takes rows a second time, as a clause; another one has them twice."""


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of what an output holds beyond a batch that its checkpoint is restored to.

    ``takes``: how it takes what comes again, as a clause, empty where it has it twice; ``refusal``: why readers cannot
    be shown it up to that batch, empty where nothing speaks against it.
    """

    how: Reconciliation
    takes: str = ""
    refusal: str = ""


def reconcile(sink: SinkDescription, version: str, batch: int) -> Reconciled:
    """Ask an output, by its description, about a restore to ``batch`` of ``version``; changes nothing.

    A table's rows replace themselves by their key. Of files Spark's own log must still tell those up to the batch from
    later ones. What a function has written is its author's to say.
    """
    match sink.kind:
        case "table":
            return Reconciled(how=Reconciliation.REPLAY, takes=TAKES[sink.kind])
        case "file":
            refusal = _why_not_cut(Path(sink.output), version, batch)
            return Reconciled(how=Reconciliation.CUT_BACK, takes=TAKES[sink.kind], refusal=refusal)
        case _:
            return Reconciled(how=Reconciliation.REFUSE)


def _why_not_cut(root: Path, version: str, batch: int) -> str:
    try:
        listed_files(root / version, last=batch)
    except InvalidInput as error:
        return error.message
    except OSError as error:
        return f"{root} cannot be read: {error.strerror}"
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
