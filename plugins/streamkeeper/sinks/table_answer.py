"""Query a table for its newest batch, and a database for the fences of its tables, without the jobs that write them.

The URL of a table that only its description identifies is among the params of a release.
"""

from __future__ import annotations

import re
from pathlib import Path

from streamkeeper.errors import NotFound, StoreUnavailable, StreamkeeperError
from streamkeeper.model.records.lost_store import Fence
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.sinks.contract import OutputAnswer, OutputQuestion
from streamkeeper.sinks.databases import identity, may_be_there, open_engine, parse_url, server_of
from streamkeeper.sinks.staging import outputs_table
from streamkeeper.sinks.table_record import read_table_record
from streamkeeper.sinks.table_segments import read_segments

_OF_A_VERSION = re.compile(r"(.+)__(v\d{4,})")


def answer(question: OutputQuestion) -> OutputAnswer:
    """Return what the output's row in its database records about the version in the question.

    The database's URL is the first of the question's ``places`` that leads to the database in the sink's description.
    """
    import sqlalchemy as sa

    database, _, table = question.sink.output.rpartition("#")
    url = _url_of(database, question)
    if not url:
        return OutputAnswer(unknown=f"no param of the release is the URL of {database}")
    outputs = outputs_table(sa.MetaData())
    engine = open_engine(url, pooled=False, reading=True)
    try:
        record = read_table_record(engine, url, table)
        if not may_be_there(url):
            return OutputAnswer(unknown=f"{database} does not exist", record=record)
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(outputs.name):
                return OutputAnswer(record=record)
            query = sa.select(outputs.c.owner, outputs.c.version, outputs.c.batch_id)
            row = connection.execute(query.where(outputs.c.output == table)).one_or_none()
    except sa.exc.SQLAlchemyError as error:
        # The error's text may name the user and the host, and the driver's own may contain more.
        return OutputAnswer(unknown=f"{database} does not answer: {type(error).__name__}", down=True)
    finally:
        engine.dispose()
    if row is None:
        return OutputAnswer(record=record)
    if row.owner != question.owner:
        return OutputAnswer(unknown=f"table {table} is written by {row.owner}")
    if record.every_version:
        return OutputAnswer(batch=record.last.get(question.version), record=record)
    if row.version is None:
        return OutputAnswer(record=record)
    if row.version != question.version:
        unknown = f"checkpoint version {row.version} has written to table {table} since"
        return OutputAnswer(unknown=unknown, record=record)
    return OutputAnswer(batch=row.batch_id, record=record)


def _url_of(database: str, question: OutputQuestion) -> str:
    """Return the first of the question's places that is a URL of this database on the recorded server. If no place
    matches, return the identity of a SQLite file, which contains its path, and an empty string for any other database.

    The comparison uses masked texts, because the identity of a URL that is a secret without a password contains the
    whole secret, and is masked where it is stored.
    """
    mask, server = question.mask, question.sink.server
    for place in question.places:
        try:
            url = parse_url(place)
        except StreamkeeperError:
            continue
        # An earlier version may have masked less in its records.
        same_server = server is None or mask(server_of(url)) == mask(server)
        if same_server and mask(identity(url)) == mask(database):
            return place
    return database if database.startswith("sqlite:") else ""


def read_fences_of(place: str, *, numbered: bool) -> list[Fence]:
    """Return the fence of each current table of a database; see ``fences.read_fences``.

    ``numbered``: only of tables without a key; otherwise only of tables with a key.
    """
    import sqlalchemy as sa

    url = parse_url(place)
    database = identity(url)
    if place.startswith("sqlite") and not (url.database and Path(url.database).is_file()):
        raise NotFound(f"{database} does not exist", hint="name the database that the job's tables are in")
    engine = open_engine(place, pooled=False, reading=True)
    outputs = outputs_table(sa.MetaData(), numbered=True)
    try:
        with engine.connect() as connection:
            found = sa.inspect(connection)
            if not found.has_table(outputs.name):
                raise NotFound(f"{database} has no table {outputs.name}: no job has written a table there")
            # Older writers created the table without some of the columns.
            there = {described["name"] for described in found.get_columns(outputs.name)}
            known = [column for column in outputs.columns if column.name in there]
            rows = [dict(row._mapping) for row in connection.execute(sa.select(*known))]
    except sa.exc.SQLAlchemyError as error:
        # The error's text may name the user and the host.
        raise StoreUnavailable(f"{database} does not answer: {type(error).__name__}") from None
    finally:
        engine.dispose()
    return _fences(database, server_of(url), rows, numbered=numbered)


def _fences(database: str, server: str, rows: list[dict[str, object]], *, numbered: bool) -> list[Fence]:
    """Return one fence for each current table of a kind. The fence also covers the tables of the output's other
    versions.
    """
    by_name = {str(row["output"]): row for row in rows}
    beside: dict[str, list[tuple[str, dict[str, object]]]] = {name: [] for name in by_name}
    for name, row in by_name.items():
        match = _OF_A_VERSION.fullmatch(name)
        if match and match[1] in by_name and by_name[match[1]]["owner"] == row["owner"]:
            beside[match[1]].append((match[2], row))
            del beside[name]
    fences = []
    for name, others in beside.items():
        row = by_name[name]
        if (row.get("segments") is not None) is not numbered:
            continue
        earlier = read_segments(row.get("segments"))
        version, batch, epoch = row["version"], row["batch_id"], row["epoch"]
        assert isinstance(epoch, int)
        epochs = [claim["epoch"] for _, claim in others]
        fences.append(
            Fence(
                output=f"{database}#{name}",
                owner=str(row["owner"]),
                epoch=max([epoch, *(number for number in epochs if isinstance(number, int))]),
                claimed=epoch,
                version=str(version or ""),
                batch=batch if isinstance(batch, int) else None,
                serving=(*earlier, OutputSegment(str(version))) if earlier and version else (),
                versions=tuple(
                    sorted(
                        {
                            *(claim for claim, _ in others),
                            *(segment.version for segment in earlier),
                            *([str(version)] if version else []),
                        }
                    )
                ),
                installation=str(row.get("installation") or ""),
                server=server,
            )
        )
    return fences
