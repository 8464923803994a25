"""Property tests of retention: what it never does, for any set of snapshots with any timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkeeper.snapshots.retention import Candidate, Policy, RetentionDecision, decide_retention

QUIET = settings(max_examples=200, deadline=None)
NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
# Close together, so that snapshots share hours and days; far apart, so that rules run out; and after now.
AGES = st.one_of(st.integers(-200, 200), st.integers(-400_000, 1_500_000)).map(
    lambda minutes: timedelta(minutes=minutes)
)


@st.composite
def snapshots(draw: st.DrawFn) -> list[Candidate]:
    """Generate snapshots in any order, with unordered times."""
    return [
        Candidate(
            number=number,
            taken_at=NOW - draw(AGES),
            verified=draw(st.booleans()),
            pinned=draw(st.sampled_from(["", "", "", "before the migration"])),
            held_by=draw(st.sampled_from([(), (), (), ("deploy-1",), ("deploy-1", "drill-2")])),
        )
        for number in draw(st.lists(st.integers(1, 60), unique=True, min_size=1, max_size=20))
    ]


COUNTS = st.integers(0, 6)
POLICIES = st.builds(Policy, keep_last=st.integers(1, 5), hourly=COUNTS, daily=COUNTS, weekly=COUNTS, monthly=COUNTS)


def decide(candidates: list[Candidate], policy: Policy) -> dict[int, RetentionDecision]:
    return {each.number: each for each in decide_retention(candidates, policy)}


def kept(candidates: list[Candidate], policy: Policy) -> set[int]:
    return {each.number for each in decide(candidates, policy).values() if each.keep}


@QUIET
@given(candidates=snapshots(), policy=POLICIES)
def test_retention_keeps_newest_verified_pinned_and_held_snapshots(candidates: list[Candidate], policy: Policy) -> None:
    """Retention keeps the newest snapshot, the newest verified one, and every pinned or held one."""
    must = {max(each.number for each in candidates)}
    must |= {max((each.number for each in candidates if each.verified), default=next(iter(must)))}
    must |= {each.number for each in candidates if each.pinned or each.held_by}
    assert must <= kept(candidates, policy)


@QUIET
@given(candidates=snapshots(), policy=POLICIES)
def test_a_second_prune_drops_nothing_more(candidates: list[Candidate], policy: Policy) -> None:
    """A second prune drops nothing more and gives the same reasons."""
    first = {number: each for number, each in decide(candidates, policy).items() if each.keep}
    assert decide([each for each in candidates if each.number in first], policy) == first


@QUIET
@given(candidates=snapshots(), policy=POLICIES, gone=st.data())
def test_a_prune_after_an_interrupted_one_keeps_the_same_snapshots(
    candidates: list[Candidate], policy: Policy, gone: st.DataObject
) -> None:
    """After a prune that stopped partway, whichever snapshots it had already removed, the next one keeps exactly the
    same snapshots.
    """
    before = decide(candidates, policy)
    dropped = sorted(number for number, each in before.items() if not each.keep)
    removed = set(gone.draw(st.lists(st.sampled_from(dropped), unique=True)) if dropped else [])
    after = kept([each for each in candidates if each.number not in removed], policy)
    assert after == {number for number, each in before.items() if each.keep}


@QUIET
@given(candidates=snapshots(), policy=POLICIES, age=AGES, verified=st.booleans())
def test_a_newer_snapshot_never_drops_a_pinned_or_held_one(
    candidates: list[Candidate], policy: Policy, age: timedelta, verified: bool
) -> None:
    """A newer snapshot never makes retention drop a pinned or held one."""
    newer = Candidate(number=61, taken_at=NOW - age, verified=verified)
    guarded = {each.number for each in candidates if each.pinned or each.held_by}
    assert guarded <= kept([*candidates, newer], policy)


@QUIET
@given(candidates=snapshots(), policy=POLICIES, more=st.data())
def test_a_larger_policy_keeps_all_that_a_smaller_one_keeps(
    candidates: list[Candidate], policy: Policy, more: st.DataObject
) -> None:
    """A policy with larger counts keeps every snapshot that one with smaller counts keeps."""
    grown = {name: count + more.draw(st.integers(0, 4)) for name, count in msgspec.structs.asdict(policy).items()}
    assert kept(candidates, policy) <= kept(candidates, Policy(**grown))


@QUIET
@given(candidates=snapshots(), policy=POLICIES)
def test_every_decision_has_a_reason_and_is_sorted_by_number(candidates: list[Candidate], policy: Policy) -> None:
    """Every decision has at least one reason and no repeated reason, and the decisions are sorted by snapshot
    number.
    """
    decided = decide_retention(candidates, policy)
    assert [each.number for each in decided] == sorted(each.number for each in candidates)
    assert all(each.reasons and len(set(each.reasons)) == len(each.reasons) for each in decided)


@QUIET
@given(candidates=snapshots(), policy=POLICIES, shuffled=st.data())
def test_decisions_do_not_depend_on_the_order_of_the_snapshots(
    candidates: list[Candidate], policy: Policy, shuffled: st.DataObject
) -> None:
    """The decisions do not depend on the order in which the snapshots are listed."""
    again = shuffled.draw(st.permutations(candidates))
    assert decide_retention(again, policy) == decide_retention(candidates, policy)


@QUIET
@given(candidates=snapshots(), policy=POLICIES)
def test_a_rule_keeps_its_count_of_snapshots_or_all_available_ones(candidates: list[Candidate], policy: Policy) -> None:
    """A rule never keeps more snapshots than its count, and fewer only if there are not enough periods or snapshots."""
    decided = decide(candidates, policy).values()
    for rule, unit in (("hourly ", "hourly"), ("daily ", "daily"), ("weekly ", "weekly"), ("monthly ", "monthly")):
        shown = [reason for each in decided for reason in each.reasons if reason.startswith(rule)]
        assert len(set(shown)) == len(shown) <= getattr(policy, unit)
        beyond = any(reason.startswith(f"{unit}: older") for each in decided for reason in each.reasons)
        assert not beyond or len(shown) == getattr(policy, unit)
    assert (
        len(decided) < policy.keep_last
        or sum(f"one of the last {policy.keep_last}" in each.reasons for each in decided) == policy.keep_last
    )
