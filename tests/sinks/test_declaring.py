"""Tests the declaration of a sink: an invalid one is refused before any connection is made, and no text contains a
password.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.model.manifests.sink_capabilities import Numbering
from streamkeeper.sinks.contract import Sink, SinkContext, WriterRole
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.foreach import BatchContext, ForeachBatch
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sinks.table import TableSink

SECRET = "postgresql+psycopg://keeper:hunter2@db.example:5432/warehouse?password=hunter2"


def test_no_password_in_any_text_of_a_table() -> None:
    """Neither the description nor the ``repr`` of a TableSink contains the user or the password."""
    sink = TableSink(SECRET, table="totals", key=["customer"])
    assert sink.describe().output == "postgresql://db.example:5432/warehouse#totals"
    assert "hunter2" not in repr(sink) + repr(sink.describe())


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("mysql://keeper:hunter2@host/db", Unsupported),
        ("postgresql+psycopg2://keeper:hunter2@host/db", Unsupported),
        ("nosuch://keeper:hunter2@host/db", Unsupported),
        ("sqlite://", Unsupported),
        ("sqlite:///relative.db", InvalidInput),
        ("keeper:hunter2", InvalidInput),
        (None, InvalidInput),
    ],
)
def test_unsupported_or_malformed_database_urls_are_refused(url: str, error: type[Exception]) -> None:
    """An unsupported or malformed database URL is refused with an example of a supported one and without the
    password.
    """
    with pytest.raises(error) as raised:
        TableSink(url, table="totals", key=["customer"])
    assert "hunter2" not in str(raised.value)
    assert "sqlite:////absolute/path.db" in str(raised.value)


@pytest.mark.parametrize(
    ("table", "key"), [("drop table", ["a"]), ("x" * 51, ["a"]), ("t", []), ("t", "a"), ("t", ["a", "a"]), ("t", [1])]
)
def test_a_table_requires_a_plain_name_and_a_key_of_distinct_columns(table: str, key: list[str]) -> None:
    """A table must have a plain name of limited length and a key of distinct columns."""
    with pytest.raises(InvalidInput):
        TableSink("sqlite:////tmp/x.db", table=table, key=key)


def test_file_paths_are_absolute_or_urls_of_supported_storage() -> None:
    """Spellings of one place have one identity; unsupported schemes, incomplete URLs, relative paths, unknown formats
    and partition columns that are not a list are refused.
    """
    assert FileSink("file:///data/out/").describe() == FileSink("/data//out").describe()
    assert FileSink("s3://bucket/out/").describe() == FileSink("s3a://bucket/out").describe()
    assert FileSink("hdfs://namenode:8020/out/").path == "hdfs://namenode:8020/out"
    with pytest.raises(Unsupported, match="gs://"):
        FileSink("gs://bucket/out")
    with pytest.raises(InvalidInput, match="no bucket and prefix"):
        FileSink("s3a://bucket")
    with pytest.raises(InvalidInput, match="no NameNode and path"):
        FileSink("hdfs://namenode:8020")
    with pytest.raises(InvalidInput, match="are not supported"):
        FileSink("s3a://bucket/logs/../out")
    with pytest.raises(InvalidInput, match="relative"):
        FileSink("out")
    with pytest.raises(Unsupported, match="avro"):
        FileSink("/out", format="avro")
    with pytest.raises(InvalidInput, match="not a list"):
        FileSink("/out", partition_by="day")


@pytest.mark.parametrize("name", ["Totals", "", "1st", "t" * 51, 'totals"', None, "sales.totals"])
def test_a_table_name_that_is_not_allowed_is_refused_with_the_remedy(name: Any) -> None:
    """A table's name that is not in small letters, begins with a digit or is too long is refused with the allowed form.
    For a name with a schema, the hint names the option of the URL that selects a schema.
    """
    remedy = "search_path%3DSCHEMA" if name == "sales.totals" else r"\[a-z_\]\[a-z0-9_\]\*, at most 50"
    with pytest.raises(InvalidInput, match=f"is not allowed.*{remedy}"):
        TableSink("postgresql+psycopg://db.example/sales", table=name, key=["customer"])
    TableSink("postgresql+psycopg://db.example/sales?options=-csearch_path%3Dsales", table="totals", key=["customer"])


def test_a_foreach_batch_sink_is_identified_by_the_name_of_its_function() -> None:
    """A ForeachBatch sink is identified by the name of its function and does not promise that a replayed batch changes
    nothing.
    """
    sink = ForeachBatch(test_a_foreach_batch_sink_is_identified_by_the_name_of_its_function)  # type: ignore[arg-type]
    assert sink.describe().output.endswith(":test_a_foreach_batch_sink_is_identified_by_the_name_of_its_function")
    assert not capabilities_of(sink.kind).takes_again
    with pytest.raises(InvalidInput):
        ForeachBatch("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "numbering", "shadows"),
    [
        (TableSink, Numbering.KEEP, True),
        (FileSink, Numbering.REBASE, True),
        (ForeachBatch, Numbering.KEEP, False),
    ],
)
def test_each_kind_of_sink_declares_batch_numbering_and_support_for_shadows(
    kind: type[Sink], numbering: Numbering, shadows: bool
) -> None:
    """A file output numbers the batches of each version anew, a table and a function keep the numbers, and only a
    function cannot be written in shadow.
    """
    can = capabilities_of(kind.kind)
    assert (can.numbering, can.shadows) == (numbering, shadows)


@pytest.mark.parametrize("role", list(WriterRole))
def test_a_function_receives_role_epoch_and_version_in_its_batch_context(role: WriterRole) -> None:
    """A function receives its writer's role, epoch and version in its batch context."""
    told: list[BatchContext] = []
    context = SinkContext(job="j", query="q", version="v0002", epoch=3, role=role)
    writer = ForeachBatch(lambda _, each: told.append(each)).open(context)
    writer.seed(3)
    writer.write(None, 4)  # type: ignore[arg-type]
    writer.discard()
    assert told == [BatchContext(batch_id=4, epoch=3, role=role, version="v0002", query="q", job="j")]
