"""Rules about the Spark version that wrote the checkpoint and the version that would continue it."""

from __future__ import annotations

from collections.abc import Iterator

from streamkeeper.compatibility.rule import APPROVE, Rule
from streamkeeper.compatibility.shown import change
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest

_HUB = "4.2.0"
_MEASURED = frozenset({"3.5.6", "4.0.1", "4.1.1", "4.2.0"})
"""Spark versions that were measured against 4.2.0, as upgrade and as downgrade, with aggregation and deduplication."""

_MEASURED_OPERATORS = frozenset({"aggregate", "deduplicate"})


def spark_version_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report another Spark version. A pair of Spark versions is trusted only for operators that were measured
    with it.
    """
    if old.spark_version == new.spark_version:
        return
    pair = {old.spark_version, new.spark_version}
    kinds = {operator.kind for operator in (*old.operators, *new.operators)}
    measured = _HUB in pair and pair <= _MEASURED and kinds <= _MEASURED_OPERATORS
    yield Finding(
        rule="spark-version-changed" if measured else "spark-version-not-measured",
        severity=Severity.NOTE if measured else Severity.OPAQUE,
        where="Spark version",
        evidence=change(old.spark_version, new.spark_version),
        hint=""
        if measured
        else f"{APPROVE}. Approve if you have tried this pair of versions on a copy of the checkpoint. Otherwise keep "
        "the deployed version: a later version may write state that the earlier one cannot read",
        reference="measured: upgrade_3.5_agg, downgrade_4.1_dedup",
    )


RULES: tuple[Rule, ...] = (spark_version_changed,)
