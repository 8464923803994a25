"""Tests to which Kafka topics a checkpoint version's offsets belong, based on its drivers' claims."""

from __future__ import annotations

from streamkeeper.model.records.checkpoint_version import CheckpointVersion, topics_at, topics_of_the_first_rows
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import Entry, EpochClaimed


def version(name: str, parent: str = "") -> CheckpointVersion:
    return CheckpointVersion(query="q", version=name, release="r0001", origin="new", state_format="", parent=parent)


def claimed(*claims: tuple[str, dict[str, str]]) -> JobState:
    """Return a job whose versions were claimed in this order, after batches 10, 20 and so on; v0002 continues v0001,
    and v0003 was rebuilt.
    """
    versions = (version("v0001"), version("v0002", parent="v0001"), version("v0003"))
    state = JobState(job="sales", versions={"q": versions})
    for epoch, (name, topics) in enumerate(claims, 1):
        claim = EpochClaimed(
            query="q", output="o", epoch=epoch, instance="i", generation=1, version=name, topics=topics,
            committed=10 * epoch,
        )  # fmt: skip
        state = fold(state, Entry(number=state.number + 1, at="", by="test", record=claim))
    return state


def test_a_version_has_the_topics_of_its_newest_claim() -> None:
    """A version has the topic ids of its newest claim, including a topic that was added later and the approved new id
    of an existing one.
    """
    state = claimed(("v0001", {"a": "1"}), ("v0001", {"a": "2", "b": "3"}))
    assert state.offset_topics("q", "v0001") == {"a": "2", "b": "3"}


def test_a_claim_without_topics_keeps_the_recorded_ones() -> None:
    """A claim without topics, as from an older program, keeps the recorded ones."""
    assert claimed(("v0001", {"a": "1"}), ("v0001", {})).offset_topics("q", "v0001") == {"a": "1"}


def test_a_version_that_continues_another_has_its_topics() -> None:
    """A version that continues a parent has the parent's topics until it is claimed itself; a rebuilt version has
    none.
    """
    state = claimed(("v0001", {"a": "1", "b": "1"}))
    assert state.offset_topics("q", "v0002") == {"a": "1", "b": "1"}
    assert state.offset_topics("q", "v0003") == {}
    assert claimed(("v0001", {"a": "1", "b": "1"}), ("v0002", {"a": "2"})).offset_topics("q", "v0002") == {
        "a": "2",
        "b": "1",
    }


def test_the_oldest_rows_came_from_the_topics_of_the_first_claim() -> None:
    """The topics of the first rows are those of the first claim, even after a person has approved a different topic."""
    state = claimed(("v0001", {"a": "1"}), ("v0001", {"a": "2", "b": "3"}), ("v0002", {"a": "4", "c": "5"}))
    first = {name: topics_of_the_first_rows(state.versions["q"], name) for name in ("v0001", "v0002", "v0003")}
    assert first == {"v0001": {"a": "1", "b": "3"}, "v0002": {"a": "1", "b": "3", "c": "5"}, "v0003": {}}


def test_older_batches_belong_to_the_topics_of_earlier_claims() -> None:
    """An older batch belongs to the topics of the claim before it, which matters when a snapshot of that batch is
    restored.
    """
    state = claimed(
        ("v0001", {"a": "1", "b": "1"}), ("v0001", {"a": "2", "b": "1"}), ("v0001", {}), ("v0001", {"a": "3"})
    )
    found = {batch: topics_at(state.versions["q"], "v0001", batch) for batch in (9, 20, 21, 40, 41)}
    first, second, third = {"a": "1", "b": "1"}, {"a": "2", "b": "1"}, {"a": "3", "b": "1"}
    assert found == {9: first, 20: first, 21: second, 40: second, 41: third}
    assert topics_at(state.versions["q"], "v0002", 5) == third


def test_an_unknown_version_or_query_has_no_topics() -> None:
    """An unknown version or query has no topics."""
    assert claimed().offset_topics("q", "v0009") == claimed().offset_topics("other", "v0001") == {}
