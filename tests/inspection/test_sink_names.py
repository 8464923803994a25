"""Tests which tables, paths and statements a sink's function names, and that no secret is shown."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.functions import find_sink_functions
from streamkeeper.sinks.foreach import ForeachBatch

TABLES = {"eu": "orders_eu"}
TOKEN = "aB3" * 9


class Writer:
    """A callable object that holds the path it writes to."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, batch: Any, context: Any) -> None:
        batch.write.parquet(self.path)


def names(function: Callable[[Any, Any], None]) -> tuple[str, ...]:
    return find_sink_functions(ForeachBatch(function), CodeDigest(None)).names


def test_tables_and_paths_are_found_in_code_globals_closures_and_objects() -> None:
    """Tables and paths are found in a function's code, defaults, globals and closures and in objects."""
    place = "s3a://lake/orders"

    def write(batch: Any, context: Any, mode: str = "append") -> None:
        batch.write.mode(mode).insertInto(TABLES["eu"])
        batch.write.save(place + "/late")

    assert {"append", "orders_eu", place, "/late"} <= set(names(write))
    assert names(Writer("/out/one")) != names(Writer("/out/two"))
    assert "/out/one" in names(Writer("/out/one"))


def test_multiword_texts_count_as_names_only_if_they_are_sql() -> None:
    """A text of several words counts as a name only if it is SQL."""

    def write(batch: Any, context: Any) -> None:
        print("written a batch")  # noqa: T201
        batch.sparkSession.sql("INSERT INTO orders  SELECT * FROM batch")

    found = names(write)
    assert "INSERT INTO orders SELECT * FROM batch" in found
    assert not any("written" in each for each in found)


def test_names_of_variables_attributes_and_methods_are_not_listed() -> None:
    """Names of variables, attributes and methods are not listed, so a refactoring changes none."""

    def write(batch: Any, context: Any) -> None:
        target = SimpleNamespace()
        target.place = batch.write
        target.place.save()

    assert names(write) == ()


def test_secrets_are_never_shown() -> None:
    """Credentials in URLs, values beside a secret's name and texts that resemble tokens are never shown."""
    password = "hunter2"
    settings = {"password": "hunter3", "user": "me"}

    def write(batch: Any, context: Any) -> None:
        api_token = "hunter4"
        batch.write.option("password", "hunter5").jdbc(
            "jdbc:postgresql://me:hunter6@host/db?password=hunter7", api_token
        )
        batch.write.jdbc(url="x", properties={"password": "hunter8"}, token="hunter9", table="orders")
        batch.write.jdbc(password, settings, TOKEN)

    shown = " ".join(names(write))
    assert "hunter" not in shown
    assert TOKEN not in shown
    assert "orders" in shown
    assert "jdbc:postgresql://***@host/db?password=***" in shown


def test_a_changed_hidden_token_still_changes_the_listed_names() -> None:
    """A changed token changes the listed names although the token itself is hidden."""
    assert names(Writer("aB3" * 9)) != names(Writer("aB4" * 9))
