"""Tests of the text that commands print, rendered from values alone."""

from __future__ import annotations

import typing

import pytest

from streamkeeper.cli.deploying import new_operation
from streamkeeper.cli.operation_end import render_plan
from streamkeeper.cli.status_commands import BeatWatch
from streamkeeper.lifecycle.steps import plan_deploy
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.manifests.release import Environment, Release, ReleaseContent
from streamkeeper.model.names import check_instance
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus
from streamkeeper.model.records import journal_records
from streamkeeper.model.records.journal_records import Outcome, Role
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.overview import JobOverview
from streamkeeper.operations.jobs.sentences import render_record

ENVIRONMENT = Environment(python="3.11", spark="4.2.0", packages_sha256="a", jars_sha256="b", digest="c")
CONTENT = ReleaseContent(
    bundle="d" * 64,
    bundle_bytes=1,
    entry="orders.py",
    params={},
    conf={},
    environment=ENVIRONMENT,
    state_format="rocksdb",
)
VALUES = {
    "release": Release(job="orders", number=1, content=CONTENT),
    "request": DeployRequest(job="orders"),
    "manifests": {"totals": "e"},
    "steps": ("bundle",),
    "result": {"release": "r0001"},
    "role": Role.CANDIDATE,
    "epoch": 1,
    "generation": 1,
    "offsets": ("{}",),
    "versions": {"totals": "v0001"},
    "batches": {"totals": "7"},
    "transitions": {},
    "verdict": Verdict.RESUME,
    "reverse": Verdict.RESUME,
    "outcome": Outcome.SUCCEEDED,
    "outcome_if_untouched": Outcome.REFUSED,
    "queries": {},
    "lost": (),
}


@pytest.mark.parametrize("kind", typing.get_args(journal_records.Record), ids=lambda kind: kind.__name__)
def test_every_kind_of_record_has_a_sentence(kind: type) -> None:
    """Every kind of journal record is rendered as a sentence on one line."""
    fields = {name: VALUES.get(name, name) for name in kind.__struct_fields__}
    if kind is not journal_records.ReleaseRegistered and "release" in fields:
        fields["release"] = "r0001"
    sentence = render_record(kind(**fields))
    assert sentence
    assert "\n" not in sentence


def test_the_plan_is_printed_step_by_step() -> None:
    """The printed plan has one row per step of the deploy, in order, with the requested drain deadline."""
    steps = plan_deploy(DeployRequest(job="orders", drain_s=77), serving="r0006")
    table = render_plan(steps)
    assert table.row_count == len(steps)
    assert list(table.columns[0].cells) == [step.step.label for step in steps]
    assert "77 s" in list(table.columns[2].cells)


def test_operation_names_are_allowed_and_differ() -> None:
    """Twenty new operations get twenty different names, all of them allowed."""
    names = {check_instance(new_operation()) for _ in range(20)}
    assert len(names) == 20


def test_a_beat_is_fresh_only_while_it_grows() -> None:
    """The age of a driver's beat counts from when this process saw it change: an unchanged beat ages, and a new beat or
    generation starts at 0 s.
    """
    beats = BeatWatch()
    told = [beats.describe(_overview(beat, generation), now) for beat, generation, now in BEATS]
    assert told == ["5, grew 0 s ago", "5, grew 9 s ago", "6, grew 0 s ago", "1, grew 0 s ago"]


BEATS = [(5, 1, 100.0), (5, 1, 109.0), (6, 1, 110.0), (1, 2, 120.0)]


def _overview(beat: int, generation: int) -> JobOverview:
    status = DriverStatus(
        instance="i",
        release="r0001",
        generation=generation,
        state=DriverState.SERVING,
        beat=beat,
        at="1970-01-01T00:00:00Z",
    )
    return JobOverview(
        job="orders",
        entry=1,
        standing=JobStatus.SERVING,
        release="r0001",
        instance="i",
        life=None,
        why="",
        status=status,
        exit=None,
        operation=None,
        last_operation=None,
        versions={},
    )
