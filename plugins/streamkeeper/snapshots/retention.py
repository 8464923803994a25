"""Decides which snapshots to keep, with every reason. A snapshot is removed only when no reason to keep it is left.

Snapshots are ordered by number, never by time, because clocks may be wrong, equal, or set back. A snapshot's time only
selects its hour, day, week and month (UTC). The numbers of the snapshots decide which of these periods are the last
ones. The current time is never used. So a prune under a clock that is days off decides the same, and a snapshot from a
clock that was years ahead is removed once enough newer ones exist.

Like restic and borg, a rule counts the hours (days, weeks, months) that have a snapshot, not those on the calendar. So
a paused job loses no snapshot, and an old snapshot stays until enough newer ones have been taken. If periods were
counted by the calendar, a job that was paused for half a year would lose its whole history at the first prune after the
pause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.snapshot import snapshot_name


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How many snapshots to keep.

    Raises InvalidInput for a negative number, or if ``keep_last`` is less than 1.
    """

    keep_last: int = 3
    """How many of the newest snapshots to keep."""
    hourly: int = 24
    """For how many of the last hours to keep the newest snapshot."""
    daily: int = 7
    """For how many of the last days to keep the newest snapshot."""
    weekly: int = 4
    """For how many of the last ISO weeks to keep the newest snapshot."""
    monthly: int = 6
    """For how many of the last months to keep the newest snapshot."""

    def __post_init__(self) -> None:
        for name, least in (("keep_last", 1), ("hourly", 0), ("daily", 0), ("weekly", 0), ("monthly", 0)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} is {getattr(self, name)}", hint=f"set {name} to {least} or more")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that the retention decides on. Raises InvalidInput when ``taken_at`` has no time zone."""

    number: int
    """The snapshot's number."""
    taken_at: datetime
    """When it was taken, with a time zone."""
    verified: bool
    """Whether a drill has resumed from it."""
    pinned: str = ""
    """The pin's reason; empty without a pin."""
    held_by: tuple[str, ...] = ()
    """The owners of its holds."""

    def __post_init__(self) -> None:
        if self.taken_at.utcoffset() is None:
            raise InvalidInput(
                f"{self.name} was taken at {self.taken_at}, without a time zone", hint="give the time in UTC"
            )

    @property
    def name(self) -> str:
        """The snapshot's name, such as ``s0007``."""
        return snapshot_name(self.number)


class RetentionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision on one snapshot, with every reason to keep it, or the reasons why no rule keeps it."""

    number: int
    keep: bool
    reasons: tuple[str, ...]


class _Rule(msgspec.Struct, frozen=True):
    """One rule that keeps the newest snapshot of each of the last periods."""

    name: str
    """The rule's name in ``Policy``."""
    unit: str
    """The unit's name, for reasons."""
    pattern: str
    """The ``strftime`` pattern of a period."""
    count: int
    """How many periods count."""
    buckets: dict[str, Candidate]
    """The periods that count, each with the snapshot that is kept for it."""


_UNITS = (
    ("hourly", "hours", "%Y-%m-%d %H:00"),
    ("daily", "days", "%Y-%m-%d"),
    ("weekly", "weeks", "%G-W%V"),
    ("monthly", "months", "%Y-%m"),
)


def decide_retention(candidates: Collection[Candidate], policy: Policy) -> tuple[RetentionDecision, ...]:
    """Decide on all snapshots of a series; return the decisions in the order of the snapshots' numbers.

    The order of the candidates does not matter. Always kept are the newest snapshot, the newest verified one, and every
    pinned or held one. A second decision on only the kept snapshots keeps all of them. Raises InvalidInput when two
    candidates have the same number.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.number)
    for one, other in pairwise(ordered):
        if one.number == other.number:
            raise InvalidInput(
                f"there are two snapshots {one.name}", hint="give each snapshot of a series its own number"
            )
    rules = [_rule(ordered, *unit, count=getattr(policy, unit[0])) for unit in _UNITS]
    return tuple(_decide(candidate, ordered, policy, rules) for candidate in ordered)


def _decide(one: Candidate, ordered: Sequence[Candidate], policy: Policy, rules: Sequence[_Rule]) -> RetentionDecision:
    verified = next((candidate for candidate in reversed(ordered) if candidate.verified), None)
    last = one in ordered[-policy.keep_last :]
    reasons = ["the newest"] if one == ordered[-1] else []
    reasons += [f"one of the last {policy.keep_last}"] if last else []
    reasons += [found for rule in rules if (found := _kept_by(rule, one))]
    reasons += ["the newest verified"] if one == verified else []
    reasons += [f"pinned: {one.pinned}"] if one.pinned else []
    reasons += [f"held by {owner}" for owner in one.held_by]
    if reasons:
        return RetentionDecision(number=one.number, keep=True, reasons=tuple(reasons))
    return RetentionDecision(number=one.number, keep=False, reasons=tuple(_why_not(one, verified, policy, rules)))


def _why_not(one: Candidate, verified: Candidate | None, policy: Policy, rules: Sequence[_Rule]) -> Iterator[str]:
    """Yield, for each rule, the reason why it does not keep the snapshot."""
    yield f"not among the last {policy.keep_last}"
    for rule in rules:
        bucket = _bucket(one, rule.pattern)
        if rule.count == 0:
            yield f"{rule.name}: none are kept"
        elif bucket in rule.buckets:
            yield f"{rule.name}: {rule.buckets[bucket].name} is kept for {bucket}"
        else:
            yield f"{rule.name}: older than the {rule.count} {rule.unit} kept"
    if one.verified and verified is not None:
        yield f"{verified.name} is verified and newer"
    else:
        yield "not verified"
    yield "no pin, no hold"


def _kept_by(rule: _Rule, one: Candidate) -> str:
    bucket = _bucket(one, rule.pattern)
    return f"{rule.name} {bucket}" if rule.buckets.get(bucket) == one else ""


def _rule(ordered: Sequence[Candidate], name: str, unit: str, pattern: str, *, count: int) -> _Rule:
    """Return a rule with the last ``count`` periods, ordered by the newest number in each; that snapshot is kept for
    its period.

    ``ordered``: all snapshots, by number.
    ``name``: the rule's name.
    ``unit``: the unit's name, for reasons.
    ``pattern``: the ``strftime`` pattern of a period.
    ``count``: how many periods to keep.
    """
    newest = {_bucket(candidate, pattern): candidate for candidate in ordered}
    kept = sorted(newest, key=lambda bucket: newest[bucket].number)[-count:] if count else []
    return _Rule(name, unit, pattern, count, {bucket: newest[bucket] for bucket in kept})


def _bucket(one: Candidate, pattern: str) -> str:
    return one.taken_at.astimezone(UTC).strftime(pattern)
