"""Tests of changed fields inside a source's column."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.nested_fields import changed_fields, uses_a_field

ITEMS = "array<struct<d:int,e:decimal(10,2)>>"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("struct<a:int>", "struct<a:int,b:string>", {("b",)}),
        ("struct<a:int,b:string>", "struct<b:string,a:int>", set()),
        ("struct<a:int,c:struct<d:int>>", "struct<a:int,c:struct<d:bigint>>", {("c", "d")}),
        (f"struct<a:int,i:{ITEMS}>", "struct<a:int,i:array<struct<d:int>>>", {("i", "e")}),
        ("struct<m:map<string,int>>", "struct<m:map<string,bigint>>", {("m",)}),
        ("struct<i:struct<d:int>>", "struct<i:array<struct<d:int>>>", {("i", "d")}),
        ("int", "bigint", None),
        ("map<string,int>", "map<string,bigint>", None),
        ("struct<a:in<t>", "struct<a:int>", None),
        ("struct<a:>", "struct<a:int>", None),
        ("array<struct<a:int>", "array<struct<a:bigint>>", None),
    ],
)
def test_paths_of_differing_fields_are_returned(before: str, after: str, changed: set[tuple[str, ...]] | None) -> None:
    """The paths of the differing fields are returned, or None if more than fields differs or a type cannot be
    parsed.
    """
    assert changed_fields(before, after) == changed


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("sum(source 0.v.b:integer)", True),
        ("sum(source 0.v.a:integer)", False),
        ("max(source 0.v)", True),
        ("max(source 0.v.c:struct)", True),
        ("sum(source 0.v.i[].b:integer)", False),
        ("sum(source 0.vb.b:integer)", False),
        ('sum(source 0.v."b":integer)', True),
        ("generate Explode(source 0.v)", False),
        ("generate PosExplode(source 0.v)", False),
        ("sum(source 0.v[*].a:integer)", False),
        ("sum(source 0.v[*].b:integer)", True),
        ("max(source 0.v[*]:struct)", True),
        ("max(size(source 0.v:array))", True),
        ("generate Inline(source 0.v:array)", True),
        ("sum(arrayaggregate(source 0.v, 0, lambda(x0, x1: x1.a:integer)))", False),
        ("sum(arrayaggregate(source 0.v, 0, lambda(x0, x1: x1.b:integer)))", True),
        ("sum(arrayaggregate(source 0.v, 0, lambda(x0, x1: x1.c.d:integer)))", True),
        ("sum(arrayaggregate(source 0.v, 0, lambda(x0, x1: hash(x1.c:struct))))", True),
        ("max(arraysort(source 0.v, lambda(x0: x0.a:integer)))", True),
    ],
)
def test_a_field_is_in_use_where_it_or_what_holds_it_is_read(text: str, used: bool) -> None:
    """A field is in use if an expression reads it or a value that contains it; in an exploded array and a lambda,
    elements are read by their fields.
    """
    assert uses_a_field([text], "source 0.v", {("b",), ("c", "d")}) is used


def test_reading_a_sibling_field_does_not_mark_inner_array_fields_as_used() -> None:
    """A field of an inner array's elements is in use only if that field or the whole array is read."""
    text = "sum(arrayaggregate(source 0.v.c, 0, lambda(x0, x1: x1.e:integer)))"
    assert not uses_a_field([text], "source 0.v", {("c", "d")})
    assert uses_a_field([text], "source 0.v", {("c", "e")})
    assert uses_a_field([text], "source 0.v", {("c",)})
