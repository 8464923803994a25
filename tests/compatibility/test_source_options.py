"""Tests of source options: one that states a default is no change, and any other is."""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import assess, find_changes
from streamkeeper.model.manifests.finding import Severity, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.sources.file_options import DEFAULTS, STREAM
from tests.compatibility.manifests import STATEFUL, changed, with_source

SPELLED = [(form, key, value) for form, options in DEFAULTS.items() for key, value in (options | STREAM).items()]
FORMAT = "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"
TIMED = with_source(STATEFUL, schema="k string\nx bigint\nts timestamp")


def reading(manifest: Manifest, form: str, **options: str) -> Manifest:
    return with_source(manifest, options={"format": form, **options})


def verdict(old: Manifest, new: Manifest) -> Verdict:
    return verdict_of(find_changes(old, new))


@pytest.mark.parametrize(("form", "key", "value"), SPELLED)
def test_stating_a_default_is_a_note_and_changing_it_gives_switch(form: str, key: str, value: str) -> None:
    """For every option in the table, stating its default is a note. Negative control: a different value gives SWITCH,
    except for cleaning and the age of files.
    """
    schema = "k string\nx double"
    plain = with_source(reading(STATEFUL, form), schema=schema)
    spelled = with_source(reading(STATEFUL, form, **{key: value}), schema=schema)
    assert [each.rule for each in find_changes(plain, spelled)] == ["source-option-spelled-out"]
    other = with_source(reading(STATEFUL, form, **{key: "other"}), schema=schema)
    if key not in ("cleansource", "maxfileage"):
        assert verdict(plain, other) is Verdict.SWITCH


def test_the_second_name_of_an_option_is_the_same_option() -> None:
    """``sep`` and ``delimiter`` are the same option, and the first name wins if both are given, as in Spark."""
    assert verdict(reading(STATEFUL, "csv", sep=";"), reading(STATEFUL, "csv", delimiter=";")) is Verdict.RESUME
    assert verdict(reading(STATEFUL, "csv", sep=";"), reading(STATEFUL, "csv", delimiter="|")) is Verdict.SWITCH
    assert (
        verdict(reading(STATEFUL, "csv", sep=";"), reading(STATEFUL, "csv", sep=";", delimiter="|")) is Verdict.RESUME
    )


def test_a_quote_that_is_switched_off_is_a_change() -> None:
    """An empty value that switches quoting off is a change and gives SWITCH."""
    assert verdict(reading(STATEFUL, "csv"), reading(STATEFUL, "csv", quote="")) is Verdict.SWITCH


@pytest.mark.parametrize("form", ["csv", "json"])
def test_failfast_to_dropmalformed_keeps_the_state_and_announces_dropped_rows(form: str) -> None:
    """A change from FAILFAST to DROPMALFORMED is a note, whose effect states that malformed rows are dropped from now
    on.
    """
    strict, dropping = reading(STATEFUL, form, mode="FAILFAST"), reading(STATEFUL, form, mode="dropmalformed")
    (found,) = assess({"q": strict}, {"q": dropping}).queries["q"].findings
    assert (found.rule, found.severity) == ("malformed-rows-dropped", Severity.NOTE)
    assert "dropped from now on" in found.effect


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (reading(STATEFUL, "json", mode="DROPMALFORMED"), reading(STATEFUL, "json", mode="FAILFAST")),
        (reading(STATEFUL, "json", mode="PERMISSIVE"), reading(STATEFUL, "json", mode="DROPMALFORMED")),
        (reading(STATEFUL, "json"), reading(STATEFUL, "json", mode="DROPMALFORMED")),
        (reading(STATEFUL, "xml", mode="FAILFAST"), reading(STATEFUL, "xml", mode="DROPMALFORMED")),
        (reading(STATEFUL, "csv", mode="FAILFAST"), reading(STATEFUL, "csv", mode="DROPMALFORMED", multiline="true")),
        (
            reading(STATEFUL, "json", mode="FAILFAST"),
            with_source(reading(STATEFUL, "json", mode="DROPMALFORMED"), schema="k string\nx bigint\ny bigint"),
        ),
        (
            reading(STATEFUL, "json", mode="FAILFAST"),
            msgspec.structs.replace(reading(STATEFUL, "json", mode="DROPMALFORMED"), plan="reads one more column"),
        ),
    ],
    ids=["reverse", "permissive", "unset", "xml", "another-option", "schema", "plan"],
)
def test_no_other_change_of_mode_keeps_the_state(before: Manifest, after: Manifest) -> None:
    """Any other change of mode, or this one with a changed format, option, schema or plan, gives SWITCH."""
    assert verdict(before, after) is Verdict.SWITCH


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_time_format_is_a_change_only_where_state_is_made_of_times(form: str) -> None:
    """A changed timestamp format gives SWITCH only if the state contains a time from that source."""
    plain, spelled = reading(TIMED, form), reading(TIMED, form, timestampformat=FORMAT)
    assert verdict(plain, spelled) is Verdict.RESUME
    used = [with_source(each, schema="k timestamp\nx bigint") for each in (plain, spelled)]
    assert verdict(*used) is Verdict.SWITCH


def test_a_changed_timestamp_format_without_time_columns_is_resumed() -> None:
    """A changed timestamp format of a source without time columns is resumed, in any format."""
    assert verdict(reading(STATEFUL, "xml"), reading(STATEFUL, "xml", timestampformat=FORMAT)) is Verdict.RESUME


PERTURBED = {
    "format": reading(TIMED, "xml"),
    "mode": reading(TIMED, "json", mode="DROPMALFORMED"),
    "name of the corrupt record": reading(TIMED, "json", columnnameofcorruptrecord="k"),
    "corrupt record": with_source(TIMED, schema="k string\nx bigint\nts timestamp\n_corrupt_record string"),
    "partial results": changed(TIMED, confs={"spark.sql.json.enablePartialResults": "false"}),
}


@pytest.mark.parametrize("perturbed", PERTURBED)
def test_a_changed_timestamp_format_gives_switch_if_rows_may_be_dropped(perturbed: str) -> None:
    """If any one condition of that rule does not hold, a changed timestamp format gives SWITCH, because an unreadable
    time may drop the whole row.
    """
    plain = PERTURBED[perturbed]
    options = {**plain.sources[0].options, "timestampformat": FORMAT}
    assert verdict(plain, with_source(plain, options=options)) is Verdict.SWITCH


def test_a_change_to_read_committed_isolation_gives_switch() -> None:
    """Kafka's isolation level ``read_committed`` gives SWITCH, because it selects rows; its default and options about
    polling are resumed.
    """
    kafka = with_source(STATEFUL, kind="kafka", location="subscribe orders@a:9092", options={}, limits={})
    committed = with_source(kafka, options={"kafka.isolation.level": "read_committed"})
    assert verdict(kafka, committed) is Verdict.SWITCH
    assert verdict(kafka, with_source(kafka, options={"kafka.isolation.level": "read_uncommitted"})) is Verdict.RESUME
    assert verdict(kafka, with_source(kafka, options={"kafkaconsumer.polltimeoutms": "1"})) is Verdict.RESUME


def test_parquet_files_are_read_by_the_streams_own_schema() -> None:
    """``mergeSchema`` is resumed for Parquet files, because a stream reads them with its own schema."""
    assert verdict(reading(STATEFUL, "parquet"), reading(STATEFUL, "parquet", mergeschema="false")) is Verdict.RESUME
