"""Which snapshots stay, and every reason for it: a snapshot goes only when nothing is left that keeps it.

Order is the snapshots' numbers, never their times: clocks may be wrong, equal, or set back. A time only says into which
hour, day, week and month (UTC) its snapshot falls. Which of these are the last ones is again told by the numbers of
the snapshots in them. Nobody asks what time it is now: a prune under a clock that is days off decides the same, and
what was stamped by a clock that was years ahead goes once enough newer ones have come.

A rule counts the hours (days, weeks, months) that hold a snapshot, not those on the calendar, as restic and borg do.
With the calendar, a job that was paused for half a year would lose its whole history to the first prune after the
pause; so it loses nothing by standing still, and an old snapshot waits until enough newer ones have been taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.snapshot import snapshot_name


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How many to keep: the newest ones, and the newest of each of the last hours, days, ISO weeks and months.

    Raises InvalidInput for a negative number, or without a last one.
    """

    keep_last: int = 3
    hourly: int = 24
    daily: int = 7
    weekly: int = 4
    monthly: int = 6

    def __post_init__(self) -> None:
        for name, least in (("keep_last", 1), ("hourly", 0), ("daily", 0), ("weekly", 0), ("monthly", 0)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} is {getattr(self, name)}", hint=f"{name} is {least} or more")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot to decide on. ``pinned``: the pin's reason, empty without a pin; ``held_by``: owners of its holds.

    ``verified``: a drill has resumed it. Raises InvalidInput when ``taken_at`` has no time zone.
    """

    number: int
    taken_at: datetime
    verified: bool
    pinned: str = ""
    held_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.taken_at.utcoffset() is None:
            raise InvalidInput(f"{self.name} was taken at {self.taken_at}, without a time zone", hint="give it in UTC")

    @property
    def name(self) -> str:
        """``s0007``."""
        return snapshot_name(self.number)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one snapshot: everything that keeps it, or why nothing does."""

    number: int
    keep: bool
    reasons: tuple[str, ...]


class _Rule(msgspec.Struct, frozen=True):
    """One rule over buckets of time. ``buckets``: those that count, each with the snapshot that stands for it."""

    name: str
    unit: str
    pattern: str
    count: int
    buckets: dict[str, Candidate]


_UNITS = (
    ("hourly", "hours", "%Y-%m-%d %H:00"),
    ("daily", "days", "%Y-%m-%d"),
    ("weekly", "weeks", "%G-W%V"),
    ("monthly", "months", "%Y-%m"),
)


def decide_retention(candidates: Collection[Candidate], policy: Policy) -> tuple[Decision, ...]:
    """Decide on all snapshots of a series, in the order of their numbers; the order given does not matter.

    Always kept: the newest, the newest verified, the pinned and the held. Deciding again on what was kept keeps all of
    it. Raises InvalidInput when two have the same number.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.number)
    for one, other in pairwise(ordered):
        if one.number == other.number:
            raise InvalidInput(f"there are two snapshots {one.name}", hint="numbers are unique in a series")
    rules = [_rule(ordered, *unit, count=getattr(policy, unit[0])) for unit in _UNITS]
    return tuple(_decide(candidate, ordered, policy, rules) for candidate in ordered)


def _decide(one: Candidate, ordered: Sequence[Candidate], policy: Policy, rules: Sequence[_Rule]) -> Decision:
    verified = next((candidate for candidate in reversed(ordered) if candidate.verified), None)
    last = one in ordered[-policy.keep_last :]
    reasons = ["the newest"] if one == ordered[-1] else []
    reasons += [f"one of the last {policy.keep_last}"] if last else []
    reasons += [found for rule in rules if (found := _kept_by(rule, one))]
    reasons += ["the newest verified"] if one == verified else []
    reasons += [f"pinned: {one.pinned}"] if one.pinned else []
    reasons += [f"held by {owner}" for owner in one.held_by]
    if reasons:
        return Decision(number=one.number, keep=True, reasons=tuple(reasons))
    return Decision(number=one.number, keep=False, reasons=tuple(_why_not(one, verified, policy, rules)))


def _why_not(one: Candidate, verified: Candidate | None, policy: Policy, rules: Sequence[_Rule]) -> Iterator[str]:
    """One reason per rule that might have kept it."""
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
    """The last ``count`` buckets by the newest number in each, which stands for its bucket."""
    newest = {_bucket(candidate, pattern): candidate for candidate in ordered}
    kept = sorted(newest, key=lambda bucket: newest[bucket].number)[-count:] if count else []
    return _Rule(name, unit, pattern, count, {bucket: newest[bucket] for bucket in kept})


def _bucket(one: Candidate, pattern: str) -> str:
    return one.taken_at.astimezone(UTC).strftime(pattern)
