"""Tests of the columns in which a rebuilt output may differ: those that the change redefines, and those that the
request names.
"""

from __future__ import annotations

from streamkeeper.compatibility.output_columns import columns_that_may_differ, names_of_columns, redefined_columns
from streamkeeper.model.manifests.manifest import Manifest, StateColumn
from tests.compatibility.manifests import STATEFUL, changed


def output(**meanings: str) -> Manifest:
    """Return a manifest whose output has columns with these expressions."""
    columns = tuple(StateColumn(name=name, meaning=text, type="long") for name, text in meanings.items())
    return changed(STATEFUL, columns=columns, output_schema="\n".join(f"{name} bigint" for name in meanings))


OLD = output(k="source 0.k", s="sum(source 0.x)", n="count(1)")


def test_only_a_column_whose_definition_changed_may_differ() -> None:
    """Only a column whose definition changed may differ in a rebuilt output."""
    new = output(k="source 0.k", s="sum(source 0.y)", n="count(1)")
    assert redefined_columns(OLD, new) == {"s"}
    assert columns_that_may_differ("totals", OLD, new, ()) == ("s",)
    assert columns_that_may_differ("totals", OLD, OLD, ()) == ()


def test_an_added_or_removed_column_is_redefined_unless_it_was_renamed() -> None:
    """An added or removed column counts as redefined, but not a column that has, or may have, the same expression under
    a new name.
    """
    more = output(k="source 0.k", s="sum(source 0.x)", n="count(1)", m="max(source 0.x)")
    assert redefined_columns(OLD, more) == {"m"}
    assert redefined_columns(more, OLD) == {"m"}
    assert redefined_columns(OLD, output(k="source 0.k", total="sum(source 0.x)", n="count(1)")) == frozenset()
    assert redefined_columns(OLD, output(k="source 0.k", total="udf(?)", n="count(1)")) == frozenset()
    assert redefined_columns(OLD, output(k="source 0.k", m="max(source 0.x)", n="count(1)")) == {"s", "m"}


def test_a_renumbered_source_or_static_table_redefines_no_column() -> None:
    """A column is not redefined if only the numbers of sources or static tables in its expression changed."""
    before, after = output(k="source 0.k", c="static 0.country"), output(k="source 1.k", c="static 1.country")
    assert redefined_columns(before, after) == frozenset()
    assert redefined_columns(before, output(k="source 1.k", c="static 1.city")) == {"c"}


def test_a_column_with_an_unknown_expression_is_not_redefined() -> None:
    """A column with an unknown expression does not count as redefined, so that a difference in it is reported."""
    for unknown in ("", "udf(?)"):
        assert redefined_columns(OLD, output(k="source 0.k", s=unknown, n="count(1)")) == frozenset()
        assert redefined_columns(output(k="source 0.k", s=unknown, n="count(1)"), OLD) == frozenset()


def test_a_declared_column_may_differ_by_its_name_or_with_its_query() -> None:
    """A declared column may differ, named alone or with its query; columns of other queries and unknown columns are
    ignored.
    """
    assert columns_that_may_differ("totals", OLD, OLD, ("s", "totals.n", "other.k", "m")) == ("n", "s")
    assert columns_that_may_differ("totals", None, OLD, ("k",)) == ("k",)
    renamed = output(k="source 0.k", total="udf(?)", n="count(1)")
    assert columns_that_may_differ("totals", OLD, renamed, ("s", "total")) == ("s", "total")


def test_every_column_can_be_named() -> None:
    """Every output column can be named, also if its expression is not recorded."""
    assert names_of_columns("totals", changed(OLD, columns=())) == {"k", "s", "n", "totals.k", "totals.s", "totals.n"}
