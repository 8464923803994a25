"""Tests of changed settings: those that change what rows mean require a switch, unless a proof shows that they cannot
matter.
"""

from __future__ import annotations

import msgspec
import pytest

from streamkeeper.compatibility.assess import find_changes
from streamkeeper.compatibility.session_settings import PROOFS
from streamkeeper.model.manifests.finding import Severity, Verdict, verdict_of
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.settings.spark_confs import MEANING, PINNED, REFUSED, TUNING
from tests.compatibility.manifests import (
    AGGREGATE,
    STATEFUL,
    STATELESS,
    TEN_MINUTES,
    UPSTREAM,
    changed,
    watermarked,
    with_operator,
    with_source,
)

WRITING = {key for key in MEANING if any(each.concerns(key) and not each.relies_on for each in PROOFS)}
ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
CASE = "spark.sql.caseSensitive"
STATIC = UPSTREAM + "\n   +- Relation [k#3,z#1L,t#8] delta"


def settings(manifest: Manifest, **values: str) -> Manifest:
    return changed(
        manifest, confs={**manifest.confs, **{key.replace("__", "."): value for key, value in values.items()}}
    )


def verdict(manifest: Manifest, key: str, before: str, after: str) -> Verdict:
    """Return the verdict on a change of one setting alone."""
    old, new = (changed(manifest, confs={**manifest.confs, key: value}) for value in (before, after))
    return verdict_of(find_changes(old, new))


PROVEN = {
    "until now such a row stopped the query, so the state contains none": (
        ANSI,
        "true",
        "false",
    ),
    "no value in the state depends on the time zone": (ZONE, "UTC", "Asia/Tokyo"),
    "columns are matched by exact name here, whatever the setting": (CASE, "false", "true"),
    "no Python code runs in or below the state": ("spark.sql.execution.pythonUDF.arrow.enabled", "true", "false"),
    "this format is not used in or below the state": (
        "spark.sql.parquet.int96RebaseModeInRead",
        "CORRECTED",
        "LEGACY",
    ),
    "affects only the writing of new rows, above the state": (
        "spark.sql.sources.partitionOverwriteMode",
        "STATIC",
        "DYNAMIC",
    ),
    "Spark reads the offset log of unnamed sources in both formats": (
        "spark.sql.streaming.offsetLog.formatVersion",
        "1",
        "2",
    ),
    "not a Spark setting: the plan and the functions show its effect where the job's code reads it": (
        "spark.job.x",
        "1",
        "2",
    ),
}
"""For each proof, a change that it covers on the plain stateful manifest."""

TIMES = with_source(STATEFUL, schema="k timestamp\nx bigint")
BY_ZONE = msgspec.structs.replace(TEN_MINUTES, column="totimestamp(source 0.k, in session)")
PYTHON = changed(STATEFUL, functions={"below/0 plus": "aa"})
PERTURBED = {
    "errors until now": [settings(STATEFUL)],
    "state is understood": [with_operator(STATEFUL, resolved=False)],
    "no expression in the session's zone": [
        with_operator(STATEFUL, rows=("lessthan(hour(source 0.ts, in session), 3:int)",)),
        watermarked(AGGREGATE, BY_ZONE),
    ],
    "no time read from text": [TIMES],
    "no static input": [changed(STATEFUL, plan=STATIC), with_operator(STATEFUL, shape=("right: LogicalRelation k",))],
    "no Python below state": [PYTHON, with_operator(STATEFUL, kind="pandas-with-state")],
    "Spark's own sources": [with_source(STATEFUL, kind="delta")],
    "JSON and text only": [
        with_source(STATEFUL, options={"format": "parquet"}),
        changed(STATEFUL, plan=UPSTREAM.replace("x#1L > 3", "from_avro(x) > 3")),
    ],
    "format not read": [
        with_source(STATEFUL, options={"format": "parquet"}),
        changed(STATEFUL, plan=UPSTREAM + "\n+- Scan parquet"),
    ],
    "no named source": [with_source(STATEFUL, name="orders")],
    "no extension": [settings(STATEFUL, spark__sql__extensions="some.Extension")],
}
"""For each condition, manifests in which only that condition does not hold."""


def test_every_proof_has_a_change_that_it_covers() -> None:
    """Every proof covers a change on a plain stateful query, which is a note whose hint states the proof."""
    assert {each.name for each in PROOFS} == set(PROVEN)
    for key, before, after in PROVEN.values():
        old = changed(STATEFUL, confs={**STATEFUL.confs, key: before})
        [finding] = find_changes(old, changed(old, confs={**old.confs, key: after}))
        assert finding.severity is Severity.NOTE
        assert finding.hint.removeprefix("no action is needed: ") in PROVEN


@pytest.mark.parametrize(("proof", "condition"), [(proof.name, name) for proof in PROOFS for name in proof.relies_on])
def test_a_proof_fails_if_any_one_of_its_conditions_is_not_met(proof: str, condition: str) -> None:
    """If any one condition of a proof does not hold, the same change of a setting gives SWITCH instead of RESUME."""
    key, before, after = PROVEN[proof]
    if condition == "errors until now":
        before, after = after, before
    for manifest in PERTURBED[condition]:
        assert verdict(manifest, key, before, after) is Verdict.SWITCH, (proof, condition)
        assert verdict(STATEFUL, key, *PROVEN[proof][1:]) is Verdict.RESUME


@pytest.mark.parametrize("key", sorted(MEANING))
def test_a_setting_that_changes_row_meaning_gives_switch_without_a_proof(key: str) -> None:
    """On a query that no proof covers, every setting that changes what rows mean gives SWITCH, unless it affects only
    writing; without state it still has a finding.
    """
    manifest = changed(
        with_source(PYTHON, options={"format": "parquet"}, name="orders"), plan=STATIC + " json csv xml avro orc"
    )
    assert verdict(manifest, key, "1", "2") is (Verdict.RESUME if key in WRITING else Verdict.SWITCH)
    assert find_changes(settings(STATELESS), changed(STATELESS, confs={**STATELESS.confs, key: "2"}))


@pytest.mark.parametrize("key", sorted(TUNING | PINNED))
def test_tuning_settings_and_pinned_settings_are_resumed(key: str) -> None:
    """Every setting for tuning, and every one that the checkpoint pins, is resumed."""
    assert verdict(STATEFUL, key, "1", "2") is Verdict.RESUME


def test_an_unknown_spark_sql_setting_gives_switch() -> None:
    """An unknown ``spark.sql`` setting gives SWITCH."""
    assert verdict(STATEFUL, "spark.sql.of.tomorrow", "1", "2") is Verdict.SWITCH


def test_a_changed_hadoop_setting_used_by_readers_gives_switch() -> None:
    """A changed Hadoop setting that readers use gives SWITCH, also if its name contains no format."""
    parquet = with_source(STATEFUL, options={"format": "parquet"})
    assert verdict(parquet, "spark.hadoop.parquet.strings.signed-min-max.enabled", "a", "b") is Verdict.SWITCH
    assert verdict(STATEFUL, "spark.hadoop.textinputformat.record.delimiter", "a", "b") is Verdict.SWITCH


def test_changed_jars_give_backup_only_with_state() -> None:
    """Changed jars give BACKUP for a query with state, and RESUME for one without."""
    assert verdict(STATEFUL, "spark.jars", "udf-1.jar", "udf-2.jar") is Verdict.BACKUP
    assert verdict(STATELESS, "spark.jars", "udf-1.jar", "udf-2.jar") is Verdict.RESUME


def test_switching_ansi_mode_on_gives_backup_even_without_state() -> None:
    """Switching ANSI mode on gives BACKUP even without state, because future rows may fail; switching it off is
    resumed.
    """
    assert verdict(STATELESS, ANSI, "false", "true") is Verdict.BACKUP
    assert verdict(STATELESS, ANSI, "true", "false") is Verdict.RESUME


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"spark.sql.legacy.x": "TRUE"}, {"spark.sql.legacy.x": "true "}),
        (
            {"spark.sql.legacy.parquet.datetimeRebaseModeInRead": "LEGACY"},
            {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"},
        ),
    ],
)
def test_another_spelling_is_no_change(before: dict[str, str], after: dict[str, str]) -> None:
    """A differently spelled value, or a setting under its newer name, is a note and is resumed."""
    old, new = (changed(STATEFUL, confs={**STATEFUL.confs, **values}) for values in (before, after))
    assert [each.rule for each in find_changes(old, new)] == ["settings-respelled"]
    assert verdict_of(find_changes(old, new)) is Verdict.RESUME


@pytest.mark.parametrize("version", ["4.2.1", "4.3.0", "4.1.1"])
def test_another_spark_is_a_finding_of_its_own_beside_others(version: str) -> None:
    """A changed Spark version, patch or minor, up or down, has its own finding beside those about settings."""
    changes = find_changes(STATEFUL, settings(changed(STATEFUL, spark_version=version), spark__sql__legacy__x="1"))
    rules = {each.rule for each in changes}
    assert "setting-changed" in rules
    assert rules & {"spark-version-changed", "spark-version-not-measured"}


@pytest.mark.parametrize(
    ("key", "strict", "lenient"),
    [("spark.sql.files.ignoreMissingFiles", "false", "true"), ("spark.sql.mapKeyDedupPolicy", "EXCEPTION", "LAST_WIN")],
)
def test_a_change_from_failing_to_ignoring_errors_is_resumed(key: str, strict: str, lenient: str) -> None:
    """A change from failing to ignoring errors is resumed, also from an unset default; the reverse gives SWITCH with
    state and BACKUP without.
    """
    assert verdict(STATEFUL, key, strict, lenient) is Verdict.RESUME
    assert verdict(STATEFUL, key, lenient, strict) is Verdict.SWITCH
    assert verdict(STATELESS, key, lenient, strict) is Verdict.BACKUP
    unset = changed(STATEFUL, confs={**STATEFUL.confs, key: lenient})
    assert verdict_of(find_changes(STATEFUL, unset)) is Verdict.RESUME


EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.mark.parametrize(("value", "expected"), [("false", Verdict.RESUME), ("true", Verdict.SWITCH)])
def test_a_spark_without_named_sources_is_resumed_if_they_are_switched_off(value: str, expected: Verdict) -> None:
    """Spark 4.1 has no setting for named sources: a change to or from a Spark that has them switched off is resumed.

    Negative control: switched on, they are a different layout and give SWITCH.
    """
    without = changed(STATEFUL, confs={key: each for key, each in STATEFUL.confs.items() if key != EVOLUTION})
    with_it = changed(STATEFUL, confs={**STATEFUL.confs, EVOLUTION: value})
    assert verdict_of(find_changes(without, with_it)) is expected
    assert verdict_of(find_changes(with_it, without)) is expected


def test_no_conf_is_judged_twice() -> None:
    """No setting is in two of the four sets of the table."""
    judged = (MEANING, TUNING, PINNED, REFUSED)
    assert len(frozenset().union(*judged)) == sum(len(each) for each in judged)
