"""A rule of health: its threshold, what it says, and what rules need to say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streamkeeper.model.control import DriverState, DriverStatus, QueryStatus
from streamkeeper.model.health import JobLook, Severity, Symptom
from streamkeeper.model.liveness import Life

Found = Iterator[tuple[str, str]]
"""(query, cause): the query is empty where it is of the whole job; the cause is one sentence with its evidence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``default``: its threshold in ``unit``, None where it needs none or another setting gives it.

    ``action``: what is advised, with ``{job}``, ``{query}`` and ``{instance}``; ``heading``: of
    docs/operations/runbook.md.
    """

    id: str
    severity: Severity
    default: float | None
    unit: str
    action: str
    heading: str
    find: Callable[[JobLook, float], Found]

    def symptoms(self, look: JobLook) -> Iterator[Symptom]:
        """What it finds in a look; nothing where the job has switched it off."""
        threshold = look.thresholds.get(self.id, self.default if self.default is not None else 0.0)
        if threshold is None:
            return
        for query, cause in self.find(look, threshold):
            series = f"{look.job}/{query}" if query else look.job
            yield Symptom(
                rule=self.id,
                severity=self.severity,
                job=look.job,
                query=query,
                cause=cause,
                action=self.action.format(job=look.job, query=query, series=series, instance=look.instance),
                heading=self.heading,
            )


def tell_span(seconds: float) -> str:
    """45 s, 12 min, 3.5 h, 4 days."""
    for size, unit in ((172_800.0, 86_400.0), (5_400.0, 3600.0), (120.0, 60.0)):
        if seconds >= size:
            name = {86_400.0: "days", 3600.0: "h", 60.0: "min"}[unit]
            return f"{seconds / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds:.0f} s"


def is_handed_over(look: JobLook) -> bool:
    """Whether an operation that somebody carries on is replacing the driver now, or is to start one that is down.

    Until a deploy drains it, and while a person is asked, the current driver has to run.
    """
    return look.operation is not None and look.operation.owned and look.operation.replaces


def should_run(look: JobLook) -> bool:
    """Whether a driver of it ought to live now: it is wanted, has not read all there was, and nobody switches it."""
    finished = look.exit is not None and look.exit.state is DriverState.FINISHED
    return look.wanted and not finished and not is_handed_over(look)


def is_gone(look: JobLook) -> bool:
    """Whether a driver that ought to live provably does not."""
    return should_run(look) and look.life in (Life.DEAD, Life.ABSENT)


def serving(look: JobLook) -> DriverStatus | None:
    """The last word of a driver that lives and serves; None where there is none."""
    status = look.status
    return status if status is not None and look.life is Life.ALIVE and not status.state.terminal else None


def serving_queries(look: JobLook) -> Iterator[tuple[str, QueryStatus]]:
    """The queries of a driver that lives and serves, by name."""
    status = serving(look)
    yield from sorted(status.queries.items()) if status is not None else ()
