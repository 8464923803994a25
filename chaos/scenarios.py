"""The operations in which a campaign kills processes: deploys of every kind, rollbacks, releases that break,
recoveries, stops, starts and watches.
"""

from __future__ import annotations

import msgspec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. ``reshape``: ``totals`` is rebuilt and ``copies`` handed off; ``recode``: an opaque change of
    ``totals``.

    ``breaks``: where the release fails, passed as the job's param; ``accepts``: accept that the job's function receives
    a batch twice, without which there would be no way back. ``rollback``: a rollback instead of a deploy. ``recover``:
    a recovery with this action instead, for a job whose driver was killed and whose checkpoints were damaged. ``verb``:
    ``stop``, ``start`` or ``watch`` instead; ``driver``: what happens to the serving driver before: it is frozen,
    killed while its supervisor lives, or gone with all of its processes.
    """

    reshape: bool = False
    recode: bool = False
    breaks: str = ""
    accepts: bool = False
    rollback: bool = False
    recover: str = ""
    verb: str = ""
    driver: str = ""

    @property
    def stops(self) -> bool:
        """Whether the operation only stops the serving driver: it has no steps and starts no driver."""
        return self.verb == "stop"

    @property
    def goes_back(self) -> bool:
        """Whether readers may see earlier totals after the operation."""
        return self.rollback or bool(self.recover)

    @property
    def sentence(self) -> str:
        """The operation in words, for a line of progress."""
        if self.verb:
            return f"{self.verb} (driver {self.driver})" if self.driver else self.verb
        if self.rollback or self.recover:
            return f"recover ({self.recover})" if self.recover else "rollback"
        told = [name for name in ("reshape", "recode") if getattr(self, name)]
        return f"deploy ({', '.join([*told, f'breaks in {self.breaks}'] if self.breaks else told) or 'resume'})"


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """An operation in which processes are killed, after an optional undisturbed one."""

    ask: Ask
    before: Ask | None = None


SCENARIOS = {
    "switch": Scenario(ask=Ask(reshape=True)),
    "code": Scenario(ask=Ask(recode=True)),
    "return": Scenario(ask=Ask(rollback=True), before=Ask(reshape=True)),
    "restore": Scenario(ask=Ask(rollback=True), before=Ask(recode=True)),
    "broken-shadow": Scenario(ask=Ask(reshape=True, breaks="shadow")),
    "broken-cutover": Scenario(ask=Ask(reshape=True, breaks="cutover")),
    "broken-probation": Scenario(ask=Ask(reshape=True, breaks="probation")),
}

FALL_BACKS = {
    "back-cutover": Scenario(ask=Ask(breaks="cutover", accepts=True)),
    "back-probation": Scenario(ask=Ask(breaks="probation", accepts=True)),
}
"""Resumes that break once they serve, so that the old release continues; seeds of the switches never draw them, they
run only by name.
"""

RECOVERIES = {
    "stop": Scenario(ask=Ask(verb="stop")),
    "stop-frozen": Scenario(ask=Ask(verb="stop", driver="frozen")),
    "stop-killed": Scenario(ask=Ask(verb="stop", driver="killed")),
    "start": Scenario(ask=Ask(verb="start"), before=Ask(verb="stop")),
    "watch": Scenario(ask=Ask(verb="watch", driver="gone")),
    "recover-restore": Scenario(ask=Ask(recover="restore")),
    "recover-restart": Scenario(ask=Ask(recover="restart")),
    "recover-rebuild": Scenario(ask=Ask(recover="rebuild")),
}
"""Scenarios of a separate campaign, so that the seeds of the switch campaign keep their meaning."""

DRIVER_ROOMS = frozenset({"audit", "driver", "seed", "sink", "supervisor"})
MANY, FEW = 45, 5
"""How many points one operation dies at: points of the operation itself, and points of its drivers, whose restarts are
counted.
"""


def plan_points(traced: dict[str, list[str]], *, everywhere: bool) -> list[str]:
    """Return cases ``SCENARIO/points:A+B…`` for the points that each scenario was seen to reach.

    Each point is planned in the first scenario that reaches it or, with ``everywhere``, in every one.
    """
    plans: list[str] = []
    planned: set[str] = set()
    for scenario, reached in traced.items():
        points = [name for name in reached if everywhere or name not in planned]
        planned.update(points)
        own = [name for name in points if not of_a_driver(name)]
        plans += [f"{scenario}/points:{'+'.join(each)}" for each in _split(own, MANY)]
        drivers = [name for name in points if of_a_driver(name)]
        plans += [f"{scenario}/points:{'+'.join(each)}" for each in _split(drivers, FEW)]
    return plans


def of_a_driver(point: str) -> bool:
    """Return whether the point is reached by a driver or its supervisor."""
    return point.split(".")[0] in DRIVER_ROOMS


def _split(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
