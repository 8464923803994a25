"""Tests of what the looks at a candidate find without a session: risks of its sources, differences between two builds,
and files that cannot be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.checkpoint_files import Tree
from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver.evidence_collection import Subject, gather_evidence
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.preflight import look_at_owner, look_at_sources
from streamkeeper.inspection import input_look
from streamkeeper.model.manifests.evidence import Look, QueryEvidence
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.table import TableSink
from tests.compatibility.manifests import STATELESS, changed, with_source

OTHER = changed(STATELESS, plan="another plan")


def query_of(root: Path) -> Query:
    frame: Any = SimpleNamespace(sparkSession=None)
    return Query("totals", frame, sink=FileSink(str(root / "out")))


def gathered(root: Path, manifest: Manifest, confs: Mapping[str, str] | None = None, **given: Any) -> QueryEvidence:
    """Return the evidence about a query that was never started."""
    planned = PlannedQuery(query=query_of(root), manifest=manifest, confs=dict(confs or {}))
    subject = Subject(job="sales", candidate={"totals": planned}, checkpoints={}, **{"deployed": None, **given})
    return gather_evidence(subject, str(root / "scratch")).queries["totals"]


@pytest.mark.parametrize(("confs", "at_risk"), [({"spark.sql.files.ignoreMissingFiles": "true"}, 1), ({}, 0)])
def test_a_source_that_deletes_its_input_and_a_conf_that_loses_rows_are_found(
    tmp_path: Path, confs: dict[str, str], at_risk: int
) -> None:
    """The look at a new query finds a source that deletes its input and a conf that can lose rows; control: without the
    conf only the source is reported.
    """
    found = gathered(tmp_path, with_source(STATELESS, options={"cleansource": "delete"}), confs, rehearse=False)
    rules = [each.rule for each in found.found[Look.PROMISES]]
    assert rules == ["source-begins-to-delete-its-input"] + ["rows-at-risk"] * at_risk
    assert found.not_looked == {}


@pytest.mark.parametrize(
    ("deployed", "second", "found"),
    [
        (None, STATELESS, []),
        (None, OTHER, ["plan-not-deterministic"]),
        (OTHER, STATELESS, []),
        (OTHER, OTHER, ["plan-not-deterministic"]),
        (STATELESS, OTHER, []),
    ],
)
def test_two_builds_of_a_candidate_are_compared(
    tmp_path: Path, deployed: Manifest | None, second: Manifest, found: list[str]
) -> None:
    """A difference between two builds of a candidate is reported with or without a deployed release; a candidate that
    equals the deployed job is not built a second time.
    """
    builds: list[str] = []

    def build_again() -> dict[str, Manifest]:
        builds.append("again")
        return {"totals": second}

    known = {"totals": deployed} if deployed is not None else None
    evidence = gathered(tmp_path, STATELESS, deployed=known, build_again=build_again)
    assert [each.rule for each in evidence.found[Look.DETERMINISM]] == found
    assert builds == ([] if deployed == STATELESS else ["again"])


@pytest.mark.parametrize("place", ["gs://bucket/in", "file://{root}/in"])
def test_uncheckable_files_of_an_uncommitted_batch_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Files of an uncommitted batch in a storage that cannot be checked are reported, because Spark would silently run
    the batch without missing ones; files that can be checked are not.
    """
    monkeypatch.setattr(input_look, "unseen_by", lambda _: {})
    tree = Tree(tmp_path / "v0001", "stateless", batches=1)
    tree.plan(1)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/f1.json").write_text("{}")
    log = tree.root / "sources/0/1"
    log.write_text(log.read_text().replace("file:///in", place.format(root=tmp_path)))
    found = list(look_at_sources(query_of(tmp_path), LocalTree(tree.root), served=False))
    told = "1 of 1 files of open batch 1 are not checked, such as gs://bucket/in/f1.json"
    rules = [each.rule for each in found]
    assert rules == (["input-not-checked"] if place.startswith("gs") else [])
    assert all(each.evidence.startswith(told) for each in found)


@pytest.mark.parametrize(("table", "rules"), [("copies", []), ("totals", ["output-of-another-query"])])
def test_the_owner_of_a_table_is_decided_by_its_own_fence_only(tmp_path: Path, table: str, rules: list[str]) -> None:
    """Only the fence of the table itself decides its owner, and not that of a different table in the same database."""
    sink = TableSink(f"sqlite:///{tmp_path / 'warehouse.db'}", table="totals", key=("customer",))
    writer = sink.open(SinkContext(job="other", query="theirs", version="v0001", epoch=1, installation="a1"))
    writer.raise_fence()
    writer.close()
    query = Query("totals", query_of(tmp_path).df, sink=TableSink(sink.url, table=table, key=("customer",)))
    assert [each.rule for each in look_at_owner("sales", query, "a1")] == rules
