"""Tests retention by example: which snapshots are kept or dropped, and the reasons that are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput
from streamkeeper.snapshots import retention
from streamkeeper.snapshots.retention import Candidate, Policy, RetentionDecision, decide_retention

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
ONLY_LAST = Policy(keep_last=1, hourly=0, daily=0, weekly=0, monthly=0)


def at(number: int, hours_ago: float, *, verified: bool = False, pinned: str = "", held_by: tuple[str, ...] = ()):
    """Return a snapshot that was taken this many hours before now."""
    taken = NOW - timedelta(hours=hours_ago)
    return Candidate(number=number, taken_at=taken, verified=verified, pinned=pinned, held_by=held_by)


def decide(candidates: list[Candidate], policy: Policy = ONLY_LAST) -> dict[int, RetentionDecision]:
    return {each.number: each for each in decide_retention(candidates, policy)}


def kept(candidates: list[Candidate], policy: Policy = ONLY_LAST) -> list[int]:
    return [each.number for each in decide(candidates, policy).values() if each.keep]


def test_a_kept_snapshot_shows_every_reason_that_keeps_it() -> None:
    """A kept snapshot lists every reason that keeps it, so that a person who unpins it sees what still keeps it."""
    one = at(12, 2.5, verified=True, pinned="before the migration", held_by=("deploy-7", "drill-1"))
    assert decide([one], Policy())[12].reasons == (
        "the newest",
        "one of the last 3",
        "hourly 2026-11-21 10:00",
        "daily 2026-11-21",
        "weekly 2026-W47",
        "monthly 2026-11",
        "the newest verified",
        "pinned: before the migration",
        "held by deploy-7",
        "held by drill-1",
    )


def test_a_dropped_snapshot_shows_why_nothing_keeps_it() -> None:
    """A dropped snapshot lists one reason per rule: which snapshot is kept in its place, or how far back the rule
    reaches.
    """
    policy = Policy(keep_last=1, hourly=2, daily=1, weekly=1, monthly=0)
    candidates = [at(8, 24 * 9, verified=True), at(9, 3, verified=True), at(11, 2.4), at(12, 2.1), at(13, 0)]
    decided = decide(candidates, policy)
    assert [each.keep for each in decided.values()] == [False, True, False, True, True]
    assert decided[11].reasons == (
        "not among the last 1",
        "hourly: s0012 is kept for 2026-11-21 10:00",
        "daily: s0013 is kept for 2026-11-21",
        "weekly: s0013 is kept for 2026-W47",
        "monthly: none are kept",
        "not verified",
        "no pin, no hold",
    )
    assert decided[8].reasons == (
        "not among the last 1",
        "hourly: older than the 2 hours kept",
        "daily: older than the 1 days kept",
        "weekly: older than the 1 weeks kept",
        "monthly: none are kept",
        "s0009 is verified and newer",
        "no pin, no hold",
    )


def test_hours_without_a_snapshot_are_not_counted() -> None:
    """An hourly rule counts only hours with a snapshot, so that a job which was stopped for months keeps its history
    through the next prune.
    """
    policy = Policy(keep_last=1, hourly=3, daily=0, weekly=0, monthly=0)
    assert kept([at(1, 5000), at(2, 4999), at(3, 4000), at(4, 0)], policy) == [2, 3, 4]


def test_a_daily_rule_keeps_the_newest_snapshot_of_each_day() -> None:
    """A daily rule keeps the newest snapshot of each day."""
    policy = Policy(keep_last=1, hourly=0, daily=2, weekly=0, monthly=0)
    assert kept([at(1, 30), at(2, 26), at(3, 2), at(4, 1)], policy) == [2, 4]


def test_weekly_rules_use_iso_weeks() -> None:
    """Weekly rules use ISO weeks, in which the first days of January may belong to the last week of the old year."""
    policy = Policy(keep_last=1, hourly=0, daily=0, weekly=5, monthly=0)
    dates = [datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 1, 3, tzinfo=UTC), datetime(2027, 1, 4, tzinfo=UTC)]
    candidates = [Candidate(number=number, taken_at=when, verified=False) for number, when in enumerate(dates, 1)]
    decided = decide_retention(candidates, policy)
    assert [each.keep for each in decided] == [False, True, True]
    assert decided[1].reasons == ("weekly 2026-W53",)
    assert decided[2].reasons[-1] == "weekly 2027-W01"


def test_hours_and_days_are_counted_in_utc_regardless_of_time_zone() -> None:
    """Hours and days are counted in UTC whatever the zone of a time: 00:30 in Berlin's winter belongs to the day
    before.
    """
    taken = datetime(2026, 11, 21, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    decided = decide_retention([Candidate(number=1, taken_at=taken, verified=False)], Policy())
    assert "daily 2026-11-20" in decided[0].reasons


def test_the_newest_verified_stays_however_old_it_is() -> None:
    """The newest verified snapshot is kept at any age, even if newer unverified ones exist."""
    candidates = [at(1, 9000, verified=True), at(2, 8000, verified=True), at(3, 1), at(4, 0)]
    assert kept(candidates) == [2, 4]
    assert decide(candidates)[2].reasons == ("the newest verified",)


def test_a_pin_and_a_hold_keep_without_any_rule() -> None:
    """Pinned and held snapshots are kept even if no rule of the policy keeps them."""
    candidates = [at(1, 9000, pinned="audit"), at(2, 8000, held_by=("deploy-7",)), at(3, 7000), at(4, 0)]
    assert kept(candidates) == [1, 2, 4]


def test_a_snapshot_with_a_future_time_is_dropped_by_its_number() -> None:
    """A snapshot with a time in the future is dropped like any other with its number."""
    policy = Policy(keep_last=1, hourly=1, daily=1, weekly=1, monthly=1)
    assert kept([at(1, -90_000), at(2, 0.1)], policy) == [2]


@pytest.mark.parametrize("days", [-2.0, 2.0, -3000.0, 3000.0])
def test_a_clock_that_is_off_drops_none_of_the_newest_hours(days: float) -> None:
    """If the clock of the backups jumps by days or years, the newest 24 hourly snapshots are still kept."""
    daily = [at(number, (60 - number) * 24) for number in range(1, 31)]
    hourly = [at(number, 60 - number - days * 24 if number > 40 else 60 - number) for number in range(31, 61)]
    assert kept([*daily, *hourly], Policy())[-24:] == list(range(37, 61))


def test_counting_ages_from_now_drops_the_newest_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if ages counted from a clock that is two days behind, all snapshots would fall into one hour
    and only the newest 3 of 24 would be kept.
    """
    hourly = [at(number, 24 - number) for number in range(1, 25)]
    assert kept(hourly, Policy()) == list(range(1, 25))
    behind, bucket = NOW - timedelta(days=2), retention._bucket
    with monkeypatch.context() as patch:
        patch.setattr(retention, "_bucket", lambda one, pattern: bucket(replace(one, taken_at=behind), pattern))
        assert kept(hourly, Policy()) == [22, 23, 24]


def test_the_newest_snapshot_is_the_one_with_the_highest_number() -> None:
    """The newest snapshot is the one with the highest number, so that a clock which was set back does not make it an
    old one.
    """
    decided = decide([at(1, 0), at(2, 0), at(3, 500)], Policy(keep_last=2, hourly=1, daily=0, weekly=0, monthly=0))
    assert decided[3].reasons == ("the newest", "one of the last 2", "hourly 2026-10-31 16:00")
    assert decided[2].reasons == ("one of the last 2",)
    assert not decided[1].keep


def test_a_series_without_snapshots_has_no_decisions() -> None:
    """A series without snapshots has no decisions and raises no error."""
    assert decide_retention([], Policy()) == ()


@pytest.mark.parametrize("wrong", [{"keep_last": 0}, {"keep_last": -1}, {"hourly": -1}, {"monthly": -3}])
def test_a_policy_with_a_negative_or_too_small_number_is_refused(wrong: dict[str, int]) -> None:
    """A policy that keeps less than one newest snapshot, or a negative number for a rule, is refused with the name of
    the field.
    """
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Policy(**wrong)


def test_two_snapshots_with_one_number_are_refused() -> None:
    """Two snapshots with one number are refused, because their order is unknown."""
    with pytest.raises(InvalidInput, match="two snapshots s0002"):
        decide([at(2, 1), at(2, 2)])


def test_times_without_a_zone_are_refused() -> None:
    """A time without a zone is refused, because it would belong to different hours on different machines."""
    with pytest.raises(InvalidInput, match="s0001"):
        Candidate(number=1, taken_at=NOW.replace(tzinfo=None), verified=False)
