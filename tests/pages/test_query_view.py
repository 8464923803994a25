"""Tests the view of a single query on the job's page."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from streamkeeper.model.protocol.driver_messages import QueryStatus
from streamkeeper.model.protocol.signals import QuerySignals, SourceSignals
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.pages.query_view import LONGEST_PLAN, QueryView, tell_lag, view_query
from tests.compatibility.manifests import STATEFUL, STATELESS, with_source

STATE = JobState(job="sales")


def view(manifest: object = STATEFUL, status: QueryStatus | None = None, state: JobState = STATE) -> QueryView:
    return view_query(state, "totals", manifest, status, root="/cp", undescribed="")  # type: ignore[arg-type]


def test_each_source_is_shown_with_its_offset_and_unread_input() -> None:
    """Each source is shown by its number with its offset and unread input, which are empty if the driver does not
    report them.
    """
    second = replace(STATEFUL.sources[0], location="/more")
    both = replace(STATEFUL, sources=(*STATEFUL.sources, second))
    signals = QuerySignals(sources=(SourceSignals(source="x", lag_files=4),))
    status = QueryStatus(query="totals", version="v0001", epoch=1, offsets=('{"logOffset":7}',), signals=signals)
    one, other = view(both, status).sources
    assert (one.title, one.offset, one.lag) == ("source 0: file /in", '{"logOffset":7}', "4 files")
    assert (other.title, other.offset, other.lag) == ("source 1: file /more", "", "")


def test_sources_without_a_manifest_have_the_names_reported_by_the_driver() -> None:
    """Without a manifest, the sources have the names that the driver reports, and surplus offsets are shown by
    number.
    """
    signals = QuerySignals(sources=(SourceSignals(source="KafkaV2[Subscribe[sales]]"),))
    status = QueryStatus(query="totals", version="v0001", epoch=1, offsets=("{}", "7"), signals=signals)
    found = view(None, status)
    assert [(each.title, each.offset) for each in found.sources] == [
        ("KafkaV2[Subscribe[sales]]", "{}"),
        ("source 1", "7"),
    ]


@pytest.mark.parametrize(
    ("signals", "told"),
    [
        ({}, ""),
        ({"lag_records": 0}, "0 records"),
        ({"lag_records": 12000, "lag_s": 210.0}, "12,000 records, lag 3.5 min"),
        ({"lag_files": 3, "runway_s": 7200.0}, "3 files; the source drops unread input in 2 h"),
        ({"runway_s": 7200.0}, "the source drops unread input in 2 h"),
    ],
)
def test_unread_input_is_shown_in_words(signals: dict[str, float], told: str) -> None:
    """Unread input is shown in words as records, files, lag and remaining retention, or as an empty text if the source
    reports nothing.
    """
    assert tell_lag(SourceSignals(source="s", **signals)) == told  # type: ignore[arg-type]


def test_stateful_operators_are_shown_with_their_state_schema() -> None:
    """A stateful operator is shown with its state schema, and a stateless query has no operators."""
    (operator,) = view().operators
    assert operator.title == "stateful operator 0: aggregate"
    assert "state key source 0.k: string" in operator.details
    assert view(STATELESS).operators == ()


def test_a_secret_in_a_url_is_masked_in_plan_location_and_options() -> None:
    """A secret in a URL is masked in the plan, the location and the options."""
    url = "s3a://key:hunter2hunter2@bucket/in"
    text = str(view(replace(with_source(STATEFUL, location=url, options={"url": url}), plan=f"Scan {url}")))
    assert "hunter2" not in text
    assert "bucket/in" in text


def test_a_long_plan_is_cut_and_states_how_much_is_left_out() -> None:
    """A plan over ``LONGEST_PLAN`` is cut and states how many characters are left out."""
    found = view(replace(STATEFUL, plan="x\n" * LONGEST_PLAN)).plan
    assert len(found) < LONGEST_PLAN + 100
    assert found.endswith("more characters)")
    assert "more characters" not in view().plan


def test_checkpoint_versions_are_listed_newest_first_with_their_location() -> None:
    """Checkpoint versions are listed newest first, with their status, the version that they continue, and their
    location under their own root or the default one.
    """
    given = {"query": "totals", "release": "r0001", "origin": "fresh", "state_format": "f"}
    first = CheckpointVersion(version="v0009", root="s3a://old/cp", **given)  # type: ignore[arg-type]
    second = CheckpointVersion(version="v0010", parent="v0009", parent_batch=7, operation="op", **given)  # type: ignore[arg-type]
    shadow = CheckpointVersion(version="v0011", serves=False, **given)  # type: ignore[arg-type]
    state = replace(STATE, versions={"totals": (first, second, shadow)}, current={"totals": "v0010"})
    found = view(state=state).versions
    assert [(each.version, each.stands, each.place) for each in found] == [
        ("v0011", "never used", "/cp/sales/totals/v0011"),
        ("v0010", "current", "/cp/sales/totals/v0010"),
        ("v0009", "previous", "s3a://old/cp/sales/totals/v0009"),
    ]
    assert found[1].carries_on == "v0009 after its batch 7"
    assert found[1].operation == "", "an operation that is on no record has no page"
