"""Read from the fence of an output which query writes it, for jobs whose records are lost."""

from __future__ import annotations

import os
import re
from pathlib import Path

from streamkeeper.errors import NotFound, StoreUnavailable
from streamkeeper.locations import scheme_of
from streamkeeper.model.lost_store import Fence
from streamkeeper.sinks.databases import identity, open_engine, parse_url, server_of
from streamkeeper.sinks.file_serving import local_directory, read_epochs
from streamkeeper.sinks.sink_log import newest_batch
from streamkeeper.sinks.staging import outputs_table

_OF_A_VERSION = re.compile(r"(.+)__(v\d{4,})")
_VERSION = re.compile(r"v\d{4,}")


def read_fences(place: str) -> list[Fence]:
    """Return the fences of all Streamkeeper outputs in a database, or the fence in a FileSink's directory; changes
    nothing.

    ``place``: the database's URL, or the directory. Raises InvalidInput or Unsupported if it is neither, NotFound if it
    has no output, StoreUnavailable if it does not answer. No message contains a password.
    """
    if scheme_of(place) in ("", "file"):
        return [_read_files(local_directory(place))]
    return _read_tables(place)


def _read_files(root: Path) -> Fence:
    try:
        claims = read_epochs(root)
        folders = [name for name in os.listdir(root) if _VERSION.fullmatch(name)] if claims else []
        if not claims:
            raise NotFound(
                f"{root} contains no epoch log of a FileSink",
                hint="give the directory that is the path of the FileSink",
            )
        newest = claims[-1]
        return Fence(
            output=str(root),
            owner=newest.owner,
            epoch=newest.epoch,
            claimed=newest.epoch,
            version=newest.version,
            batch=newest_batch(root / newest.version),
            serving=newest.spans,
            versions=tuple(sorted({*folders, *(claim.version for claim in claims)})),
            installation=newest.installation,
        )
    except OSError as error:
        raise StoreUnavailable(f"output {root} cannot be read: {error.strerror}") from error


def _read_tables(place: str) -> list[Fence]:
    import sqlalchemy as sa

    url = parse_url(place)
    database = identity(url)
    if place.startswith("sqlite") and not (url.database and Path(url.database).is_file()):
        raise NotFound(f"{database} does not exist", hint="name the database that the job's tables are in")
    engine = open_engine(place, pooled=False, reading=True)
    outputs = outputs_table(sa.MetaData())
    try:
        with engine.connect() as connection:
            found = sa.inspect(connection)
            if not found.has_table(outputs.name):
                raise NotFound(f"{database} has no table {outputs.name}: no TableSink has written there")
            # Older writers created the table without the installation's column.
            there = {described["name"] for described in found.get_columns(outputs.name)}
            known = [column for column in outputs.columns if column.name in there]
            rows = [dict(row._mapping) for row in connection.execute(sa.select(*known))]
    except sa.exc.SQLAlchemyError as error:
        # The error's text may name the user and the host.
        raise StoreUnavailable(f"{database} does not answer: {type(error).__name__}") from None
    finally:
        engine.dispose()
    return _fences(database, server_of(url), rows)


def _fences(database: str, server: str, rows: list[dict[str, object]]) -> list[Fence]:
    """Return a fence for each current table, which includes the tables of the output's other versions."""
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
                versions=tuple(sorted({*(claim for claim, _ in others), *([str(version)] if version else [])})),
                installation=str(row.get("installation") or ""),
                server=server,
            )
        )
    return fences
