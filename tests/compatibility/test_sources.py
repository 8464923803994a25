"""Tests of sources: fields inside a column, depending on the format, and topics that are named in a different way."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest, Source, StateColumn
from streamkeeper.sources.known_sources import asks_the_checkpoint
from tests.compatibility.manifests import STATEFUL, changed, with_operator, with_source

SUM_OF_A = with_operator(STATEFUL, values=(StateColumn(meaning="sum(source 0.v.a:integer)", type="long"),), rows=())


def reading(form: str, field: str, *, kept: Manifest = SUM_OF_A, **options: str) -> Manifest:
    return with_source(kept, options={"format": form, **options}, schema=f"k string\nv {field}")


def verdicts(old: Manifest, new: Manifest) -> set[Verdict]:
    return {verdict_of(find_changes(*pair)) for pair in ((old, new), (new, old))}


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_adding_or_removing_a_field_outside_the_state_is_resumed(form: str) -> None:
    """Adding or removing a field is resumed in JSON and Parquet, unless the state contains that field or the struct
    around it.
    """
    one, two = "struct<a:int>", "struct<a:int,b:struct<c:string,d:int>>"
    assert verdicts(reading(form, one), reading(form, two)) == {Verdict.RESUME}
    for meaning in ("sum(source 0.v.b.d:integer)", "max(source 0.v)", "max(source 0.v.b)"):
        kept = with_operator(STATEFUL, values=(StateColumn(meaning=meaning, type="long"),), rows=())
        assert verdicts(reading(form, one, kept=kept), reading(form, two, kept=kept)) == {Verdict.SWITCH}


@pytest.mark.parametrize(
    ("form", "expected"), [("json", Verdict.RESUME), ("parquet", Verdict.SWITCH), ("orc", Verdict.SWITCH)]
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("struct<a:int,b:int>", "struct<a:int,b:string>"),
        ("struct<a:int>", "struct<a:int,b:array<struct<c:int>>>"),
        ("struct<a:int,b:array<struct<c:int>>>", "struct<a:int,b:array<struct<c:int,d:int>>>"),
    ],
    ids=["read as another type", "an array comes", "a field comes inside of an array"],
)
def test_a_retyped_field_is_resumed_for_json_but_not_for_parquet(
    form: str, expected: Verdict, before: str, after: str
) -> None:
    """A retyped field or a change inside an array is resumed for JSON, and gives SWITCH for Parquet and ORC, which read
    fields less independently.
    """
    assert verdicts(reading(form, before), reading(form, after)) == {expected}


@pytest.mark.parametrize("conf", ["spark.sql.files.ignoreCorruptFiles", "spark.sql.parquet.fieldId.read.enabled"])
def test_an_added_parquet_field_gives_switch_if_a_setting_couples_fields(conf: str) -> None:
    """An added field of a Parquet column gives SWITCH if a setting ignores corrupt files or reads fields by their
    ids.
    """
    kept = changed(SUM_OF_A, confs={**SUM_OF_A.confs, conf: "true"})
    old, new = (reading("parquet", each, kept=kept) for each in ("struct<a:int>", "struct<a:int,b:int>"))
    assert verdicts(old, new) == {Verdict.SWITCH}


def test_an_added_parquet_field_gives_switch_with_ignore_corrupt_files() -> None:
    """An added field of a Parquet column gives SWITCH if the source option ``ignoreCorruptFiles`` is set."""
    old, new = (
        reading("parquet", each, ignorecorruptfiles="true") for each in ("struct<a:int>", "struct<a:int,b:int>")
    )
    assert verdicts(old, new) == {Verdict.SWITCH}


def test_topics_need_the_checkpoint_only_for_patterns_or_partition_lists() -> None:
    """The checkpoint is needed to compare topics only if one side is a pattern or a list of partitions at the same
    brokers.
    """
    subscribed = with_source(STATEFUL, kind="kafka", location="subscribe a@b:1").sources[0]

    def at(location: str) -> Source:
        return msgspec.structs.replace(subscribed, location=location)

    assert asks_the_checkpoint(at("subscribepattern a.*@b:1"), subscribed)
    assert asks_the_checkpoint(subscribed, at('assign {"a": [0]}@b:1'))
    assert not asks_the_checkpoint(subscribed, subscribed)
    assert not asks_the_checkpoint(subscribed, at("subscribe a,c@b:1"))
    assert not asks_the_checkpoint(at("subscribepattern a.*@b:1"), at("subscribe a@c:1"))
