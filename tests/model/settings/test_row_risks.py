"""Tests which values of confs and reader options put rows at risk."""

from __future__ import annotations

import pytest

from streamkeeper.compatibility.observations import row_risks
from streamkeeper.errors import InvalidInput
from streamkeeper.model.manifests.finding import Severity
from streamkeeper.model.settings.release_conf import check_release_conf
from streamkeeper.model.settings.row_risks import risk_of_conf
from streamkeeper.model.settings.spark_confs import MEANING, PINNED, TUNING
from tests.compatibility.manifests import STATELESS, with_source

STREAMING = "spark.sql.streaming."
UNSAFE = [
    ("spark.sql.files.ignoreMissingFiles", "true"),
    ("spark.sql.files.ignoreMissingFiles", "TRUE "),
    ("spark.sql.files.ignoreCorruptFiles", "true"),
    ("spark.sql.files.ignoreMissingFiles", "secret://env/TRUE"),
    (f"{STREAMING}minBatchesToRetain", "1"),
    (f"{STREAMING}fileSink.log.cleanupDelay", "0"),
    (f"{STREAMING}fileSink.log.cleanupDelay", "5m"),
    (f"{STREAMING}fileSource.log.cleanupDelay", "1ms"),
    (f"{STREAMING}fileStreamSink.ignoreMetadata", "true"),
    (f"{STREAMING}internal.stateStore.partitions", "4"),
    (f"{STREAMING}stateStore.stateSchemaCheck", "false"),
    (f"{STREAMING}stateStore.commitValidation.enabled", "false"),
    (f"{STREAMING}statefulOperator.checkCorrectness.enabled", "false"),
    (f"{STREAMING}unsupportedOperationCheck", "false"),
]


@pytest.mark.parametrize(("key", "value"), UNSAFE)
def test_a_deploy_cannot_set_a_conf_that_puts_rows_at_risk(key: str, value: str) -> None:
    """A risky conf value is refused with what is at risk; only the conf's full name in the installation's list allows
    it, not a pattern.
    """
    with pytest.raises(InvalidInput, match=f"{key}=.* puts rows at risk: ") as refused:
        check_release_conf({key: value}, ["spark.*"])
    assert "to add its full name to STREAMKEEPER_CONFS" in refused.value.hint
    check_release_conf({key: value}, [key])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.files.ignoreMissingFiles", "false"),
        (f"{STREAMING}minBatchesToRetain", "2"),
        (f"{STREAMING}fileSink.log.cleanupDelay", "10m"),
        (f"{STREAMING}fileSink.log.cleanupDelay", "600000"),
        (f"{STREAMING}fileSource.log.cleanupDelay", "1 hour"),
        (f"{STREAMING}stateStore.stateSchemaCheck", "true"),
    ],
)
def test_a_safe_value_of_the_same_conf_passes(key: str, value: str) -> None:
    """A safe value of a conf that can be risky is accepted."""
    check_release_conf({key: value})


def test_spark_knows_each_conf_that_is_judged() -> None:
    """Every judged conf exists in Spark, because a misspelt key would protect nothing."""
    known = {key for key, _ in UNSAFE} & (MEANING | TUNING | PINNED)
    assert known == {key for key, _ in UNSAFE}


def test_the_assessment_notes_risky_options_set_by_the_jobs_code() -> None:
    """The assessment notes each risky reader option and session conf, and no safe value."""
    file = with_source(
        STATELESS, options={"format": "json", "ignoremissingfiles": "true", "ignorecorruptfiles": "false"}
    )
    found = list(row_risks(file, {f"{STREAMING}minBatchesToRetain": "1", f"{STREAMING}pollingDelay": "1"}))
    assert [each.evidence for each in found] == [f"{STREAMING}minBatchesToRetain=1", "ignoremissingfiles=true"]
    assert {each.severity for each in found} == {Severity.NOTE}
    assert all(each.effect for each in found)
    kafka = with_source(STATELESS, kind="kafka", options={"failondataloss": "false"})
    assert [each.where for each in row_risks(kafka, {})] == ["source 0 (kafka), option failondataloss"]
    assert not list(row_risks(STATELESS, {}))


def test_a_duration_that_cannot_be_read_counts_as_unsafe() -> None:
    """A duration that cannot be parsed counts as risky, because Spark might interpret it differently."""
    assert risk_of_conf(f"{STREAMING}fileSink.log.cleanupDelay", "soon")
