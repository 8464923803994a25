"""Attacks on outputs: names that are already taken by others, and a different server behind the same URL."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from chaos.attacks.attack import Attack
from harness.postgres_server import find_programs, new_database, postgres_server
from harness.variables import set_variables
from streamkeeper.errors import NotFound

_ROWS = [(7,), (8,)]


def taken_names(at: Attack, chance: random.Random) -> None:
    """Create a foreign table or directory with a name that the next version of an output would use: the deploy must be
    refused and its content kept.
    """
    taken = at.way("totals__v0002__staged", "totals__v0002", "copies/v0002")
    with at.ended():
        at.serve()
        at.more(chance.uniform(1.0, 2.0))
        _take(at, taken)
        at.did.append(f"{taken} is somebody else's")
        at.refused("deploy", at.ask(shape=1), taken.rpartition("/")[2])
        kept = _kept(at, taken)
        if kept != _ROWS:
            at.damage.append(f"{taken} holds {kept}")
        at.more()
        _give_back(at, taken)
        at.go_on()
        at.no_replays(taken)


def _take(at: Attack, name: str) -> None:
    if "/" in name:
        folder = at.output / name
        folder.mkdir(parents=True)
        (folder / "mine.csv").write_text("\n".join(str(value) for (value,) in _ROWS))
        return
    with closing(sqlite3.connect(at.output / "warehouse.db", timeout=30)) as database, database:
        database.execute(f"CREATE TABLE {name} (mine INTEGER)")
        database.executemany(f"INSERT INTO {name} VALUES (?)", _ROWS)


def _kept(at: Attack, name: str) -> object:
    if "/" in name:
        file = at.output / name / "mine.csv"
        return [(int(line),) for line in file.read_text().split()] if file.exists() else "nothing"
    try:
        with closing(sqlite3.connect(at.output / "warehouse.db", timeout=30)) as database:
            return database.execute(f"SELECT mine FROM {name} ORDER BY 1").fetchall()
    except sqlite3.OperationalError as error:
        return str(error)


def _give_back(at: Attack, name: str) -> None:
    if "/" in name:
        (at.output / name).rename(at.bed.root / "theirs")
        return
    with closing(sqlite3.connect(at.output / "warehouse.db", timeout=30)) as database, database:
        database.execute(f"ALTER TABLE {name} RENAME TO theirs")


def other_server(at: Attack, chance: random.Random) -> None:
    """Deploy with the same host, port and path in the URL but a different database, schema or server behind it: the
    output must not be taken for the same one.
    """
    how = at.way("dbname", "search_path", "service", "port")
    with _servers(at) as (one, two):
        first, second = new_database(one, "first"), new_database(one, "second")
        user = "postgresql+psycopg://streamkeeper@"
        url = first.replace("postgresql://streamkeeper@", user)
        match how:
            case "dbname":
                urls = (url, f"{url}?dbname=second")
            case "search_path":
                with psycopg.connect(first, autocommit=True) as connection:
                    connection.execute("CREATE SCHEMA other")
                urls, second = (url, f"{url}?options=-csearch_path%3Dother"), f"{first}?options=-csearch_path%3Dother"
            case "service":
                _define(at, first)
                urls = ("postgresql+psycopg://?service=campaign",) * 2
            case _:
                second = new_database(two, "first")
                rest = "host=127.0.0.1&user=streamkeeper"
                ports = [place.rpartition(":")[2].partition("/")[0] for place in (first, second)]
                urls = tuple(f"postgresql+psycopg:///first?{rest}&port={port}" for port in ports)  # type: ignore[assignment]
        at.queries = ("totals", "copies")
        at.database = first
        with at.ended():
            at.serve(warehouse=urls[0])
            at.more(chance.uniform(1.0, 2.0))
            if how == "service":
                _define(at, second)
            at.did.append(f"another {how}")
            tried = at.ask("--dry-run", warehouse=urls[1])
            said = " ".join((tried.stdout + tried.stderr).split())
            at.told.append(said[-400:])
            if "RESUME" in said or "sink-output-changed" not in said:
                at.damage.append(f"{how}: it is taken for the same output: {said[-300:]}")
            at.bed.start_producer(rows=5, every_s=0.5, seed=7)
            answer = at.ask(warehouse=urls[1])
            at.told.append(" ".join((answer.stderr or answer.stdout).split())[-300:])
            if answer.returncode == 0:
                at.database = second
            elif how == "service":
                _define(at, first)
                at.go_on(warehouse=urls[0])  # a driver that connected meanwhile has ended, by a refusal
            at.settle()


@contextmanager
def _servers(at: Attack) -> Iterator[tuple[str, str]]:
    """Provide two PostgreSQL servers and a home directory for the service file, until the context ends."""
    programs = find_programs()
    if programs is None:
        raise NotFound("there are no PostgreSQL server programs", hint="Debian: apt-get install postgresql")
    homes = [Path(tempfile.mkdtemp(prefix="streamkeeper-attack-")) for _ in range(2)]
    people = at.bed.root / "people"
    people.mkdir()
    with (
        set_variables({"HOME": str(people)}),
        postgres_server(homes[0], programs) as one,
        postgres_server(homes[1], programs) as two,
    ):
        yield one, two


def _define(at: Attack, place: str) -> None:
    """Make the PostgreSQL service point to a database."""
    user, _, rest = place.removeprefix("postgresql://").partition("@")
    address, _, database = rest.partition("/")
    host, _, port = address.partition(":")
    text = f"[campaign]\nhost={host}\nport={port}\ndbname={database}\nuser={user}\n"
    (at.bed.root / "people" / ".pg_service.conf").write_text(text)
