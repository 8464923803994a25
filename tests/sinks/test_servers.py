"""Tests which server and schema a database URL leads to: they are recorded with the output and are the same for every
process that connects.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from harness.postgres_server import new_database
from streamkeeper.compatibility.assess import find_changes
from streamkeeper.driver.job_loading import check_manifests
from streamkeeper.errors import PermanentError, Unsupported
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Severity
from streamkeeper.model.manifests.manifest import Manifest, SinkDescription
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.registry.objects import put_object
from streamkeeper.sinks.contract import OutputQuestion, SinkContext
from streamkeeper.sinks.databases import identity, open_engine, parse_url, resolved
from streamkeeper.sinks.table import TableSink, answer
from streamkeeper.stores.local import LocalStore
from tests.compatibility.manifests import STATEFUL

PLAIN = "postgresql+psycopg://app:hush@db/sales"
SERVICE = "postgresql+psycopg://?service=warehouse"


def sink(url: str) -> TableSink:
    return TableSink(url, table="totals", key=["customer"])


@pytest.fixture
def database(postgres_server: str) -> str:
    """The URL of an empty PostgreSQL database."""
    made = new_database(postgres_server, f"test_{uuid4().hex[:12]}")
    return made.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a PostgreSQL service file, in an environment without ``PG`` variables."""
    for name in [each for each in os.environ if each.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("url", "key", "server"),
    [
        (PLAIN, "postgresql://db/sales", ""),
        ("postgresql+psycopg://other:word@db/sales?sslmode=require", "postgresql://db/sales", ""),
        ("postgresql+psycopg://db:5433/sales", "postgresql://db:5433/sales", ""),
        ("postgresql+psycopg:///sales?host=db2", "postgresql:///sales", "host=db2"),
        ("postgresql+psycopg://db/sales?host=db2&port=5433", "postgresql://db/sales", "host=db2&port=5433"),
        ("postgresql+psycopg://db/sales?hostaddr=10.0.0.1", "postgresql://db/sales", "hostaddr=10.0.0.1"),
        ("postgresql+psycopg://db/sales?dbname=other", "postgresql://db/sales", "dbname=other"),
        ("postgresql+psycopg:///sales?host=a:1&host=b:2", "postgresql:///sales", "host=a,b&port=1,2"),
        ("postgresql+psycopg://app@db", "postgresql://db", "user=app"),
        (f"{PLAIN}?options=-csearch_path%3Dnew", "postgresql://db/sales", "search_path=new"),
        (
            f"{PLAIN}?options=-c%20search_path%3Da%2Cb%20--role%3Downer",
            "postgresql://db/sales",
            "role=owner&search_path=a,b",
        ),
        (f"{PLAIN}?options=-cSearch_Path%3Da%20--ROLE%3Downer", "postgresql://db/sales", "role=owner&search_path=a"),
        (f"{PLAIN}?options=--search-path%3Da", "postgresql://db/sales", "search_path=a"),
        (
            f"{PLAIN}?options=-csearch_path%3Da%20--Search-Path%3Db%20-cRole%3Dx%20-crole%3Dy",
            "postgresql://db/sales",
            "role=y&search_path=b",
        ),
        (f"{PLAIN}?options=-cstatement_timeout%3D5", "postgresql://db/sales", ""),
        (f"{SERVICE}&password=hush", "postgresql://", "service=warehouse&user="),
        ("sqlite:////data/sales.db?timeout=3", "sqlite:////data/sales.db", ""),
    ],
)
def test_the_recorded_key_is_unchanged_and_the_server_is_recorded_separately(url: str, key: str, server: str) -> None:
    """An output's key is exactly what earlier versions recorded, and the server, schema and role are recorded
    separately; neither contains a password.
    """
    described = sink(url).describe()
    assert (described.output, described.server) == (f"{key}#totals", server)
    assert identity(parse_url(url)) == key


def test_a_service_is_resolved_through_its_definition(home: Path) -> None:
    """A service is resolved through its definition: one that is redirected to a different server is a different place,
    and an executor gets a URL that needs no service file.
    """
    file = home / ".pg_service.conf"
    file.write_text("# ours\n[warehouse]\nhost=one\nport=5433\ndbname=sales\nuser=app\npassword=hush\n")
    before = sink(SERVICE).describe()
    assert before.server == "dbname=sales&host=one&port=5433"
    assert "hush" not in str(before)
    carried = parse_url(resolved(SERVICE))
    assert {"service"}.isdisjoint(carried.query)
    assert (carried.query["host"], carried.query["password"]) == ("one", "hush")
    file.write_text("[warehouse]\nhost=two\ndbname=sales\n")
    assert not before.same_place(sink(SERVICE).describe())


@pytest.mark.parametrize("broken", [b"no setting\n", b"[warehouse\n", b"x=\xff\n"], ids=["line", "section", "encoding"])
def test_an_unreadable_service_file_resolves_no_service(home: Path, broken: bytes) -> None:
    """From an unreadable service file no service is resolved, so the record names the service for libpq to look up;
    without the broken line the same file is resolved.
    """
    file, service = home / ".pg_service.conf", b"[warehouse]\nhost=one\ndbname=sales\n"
    file.write_bytes(service)
    assert sink(SERVICE).describe().server == "dbname=sales&host=one"
    file.write_bytes(service + broken)
    assert sink(SERVICE).describe().server == "service=warehouse&user="


@pytest.mark.postgres
def test_every_process_connects_to_the_server_on_record(
    database: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process connects to the recorded server regardless of ``PGHOSTADDR``, ``PGPORT`` and ``PGDATABASE``.

    Negative control: libpq alone follows these variables and fails to connect.
    """
    url = parse_url(database)
    (home / ".pg_service.conf").write_text(
        f"[warehouse]\nhost={url.host}\nport={url.port}\ndbname={url.database}\nuser={url.username}\n"
    )
    for name, value in (("PGHOSTADDR", "127.0.0.9"), ("PGPORT", "9"), ("PGDATABASE", "nothing")):
        monkeypatch.setenv(name, value)
    for each in (database, SERVICE, resolved(SERVICE)):
        with open_engine(each, pooled=False).connect() as connection:
            assert connection.execute(sa.text("SELECT current_database()")).scalar_one() == url.database
    with pytest.raises(sa.exc.OperationalError):
        sa.create_engine(database).connect()


@pytest.mark.postgres
def test_schema_and_lock_timeout_of_the_options_of_a_url_are_used(database: str) -> None:
    """A schema in the URL's options is used for the tables together with the lock timeout of 30 s; without the option
    the tables are in ``public``.
    """
    engine = open_engine(database, pooled=False)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA kept"))
    for url, schema in ((f"{database}?options=-csearch_path%3Dkept", "kept"), (database, "public")):
        writer = sink(url).open(SinkContext(job="sales", query="totals", version="v0001", epoch=1))
        writer.raise_fence()
        writer.close()
        with open_engine(url, pooled=False).connect() as connection:
            assert connection.execute(sa.text("SHOW lock_timeout")).scalar_one() == "30s"
            assert connection.execute(sa.text("SELECT current_schema()")).scalar_one() == schema
            assert sa.inspect(connection).has_table("streamkeeper_outputs", schema=schema)


@pytest.mark.postgres
def test_an_output_is_queried_on_its_recorded_server_only(database: str) -> None:
    """If two params lead to one key, the output is queried on its recorded server only; the server of the first param,
    which does not answer, is not contacted.
    """
    url = parse_url(database)
    wrong, right = (
        f"postgresql+psycopg:///{url.database}?host={url.host}&port={port}&user={url.username}"
        for port in (9, url.port)
    )
    writer = sink(right).open(SinkContext(job="sales", query="totals", version="v0001", epoch=1))
    writer.raise_fence()
    writer.close()
    described = sink(right).describe()
    question = OutputQuestion(
        sink=described, owner="sales/totals", version="v0001", places=(wrong, right), mask=lambda text: text
    )
    assert answer(question).unknown == ""
    assert answer(replace(question, sink=replace(described, server=None))).down


def manifest(server: str | None) -> Manifest:
    described = SinkDescription(
        kind="table", output="postgresql://db/sales#totals", options={"key": "k"}, server=server
    )
    return replace(STATEFUL, sink=described)


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        ("", "", None),
        ("host=a", "host=a", None),
        ("host=a", "host=b", ("sink-output-changed", Severity.BREAKING)),
        ("", "host=b", ("sink-output-changed", Severity.BREAKING)),
        ("host=a", "", ("sink-output-changed", Severity.BREAKING)),
        (None, "", None),
        ("", None, None),
        (None, "host=a", ("sink-server-not-on-record", Severity.OPAQUE)),
        (None, "search_path=x", ("sink-output-changed", Severity.BREAKING)),
    ],
)
def test_a_different_server_or_schema_is_a_breaking_change(
    was: str | None, now: str | None, found: tuple[str, Severity] | None
) -> None:
    """A different server or schema is a breaking change even with the same key; if an older release did not record its
    server, a person must approve the change once.
    """
    told = [(finding.rule, finding.severity) for finding in find_changes(manifest(was), manifest(now))]
    assert told == ([found] if found else [])


def test_a_release_without_a_recorded_server_restarts_on_any_server(tmp_path: Path) -> None:
    """A release without a recorded server restarts on any server, but a schema, which the older version ignored, is
    refused; a recorded server must match.
    """
    store = LocalStore(tmp_path)
    stored = put_object(store, "sales", "manifests", to_json(manifest(None)), ".json")
    spec = LaunchSpec(
        instance="i1", job="sales", release="r0001", mode=LaunchMode.STANDBY, bundle="", entry="job.py", params={},
        conf={}, checkpoints="", expected_manifests={"totals": stored},
    )  # fmt: skip
    for server in ("", "host=a"):
        check_manifests(spec, {"totals": manifest(server)}, store, {})
    with pytest.raises(
        PermanentError, match=r"names the schema search_path=x\. The version of Streamkeeper that checked"
    ):
        check_manifests(spec, {"totals": manifest("search_path=x")}, store, {})
    known = put_object(store, "sales", "manifests", to_json(manifest("host=a")), ".json")
    with pytest.raises(PermanentError, match="builds queries that differ from those that were checked"):
        check_manifests(replace(spec, expected_manifests={"totals": known}), {"totals": manifest("host=b")}, store, {})


def test_two_paths_to_one_sqlite_file_are_one_output(tmp_path: Path) -> None:
    """Two paths to one SQLite file are one output, and a URI whose parameters open a different file is refused."""
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to("real.db")
    real, link, other = (sink(f"sqlite:///{tmp_path}/{name}.db") for name in ("real", "link", "other"))
    assert real.overlaps(link)
    assert not real.overlaps(other)
    assert not real.overlaps(TableSink(link.url, table="others", key=["customer"]))
    with pytest.raises(Unsupported, match="opens a file other than the path in the URL"):
        sink(f"sqlite:///{tmp_path}/real.db?uri=true&mode=memory")
    assert sink(f"sqlite:///{tmp_path}/real.db?uri=true&timeout=3").describe().server == ""
