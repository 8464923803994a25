"""The type of a health rule, and the predicates that rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.watch.health import JobLook, Symptom, Urgency

Found = Iterator[tuple[str, str]]
"""Pairs of query and cause. An empty query name means the whole job; the cause is one sentence that includes its
evidence.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """One health rule, with its threshold, its advice and its search for problems."""

    id: str
    """The rule's name in incidents, in alerts and in the ``health`` setting of a job."""
    severity: Urgency
    """Whether a finding pages a person, opens a ticket, or is only shown."""
    default: float | None
    """The rule's default threshold in ``unit``; None if the rule has no threshold, or takes it from another setting."""
    unit: str
    """The unit of the threshold; empty for a rule without a threshold."""
    action: str
    """The advice, with ``{job}``, ``{query}``, ``{series}`` (``job/query``) and ``{instance}``."""
    heading: str
    """The heading of the rule's section in docs/operations/runbook.md."""
    find: Callable[[JobLook, float], Found]
    """The search function: it yields the problems that it finds in an observation at a threshold."""

    def symptoms(self, look: JobLook) -> Iterator[Symptom]:
        """Yield the symptoms that the rule finds in the facts collected about a job; none if the job has switched the
        rule off.
        """
        threshold = look.facts.thresholds.get(self.id, self.default if self.default is not None else 0.0)
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
    """Return a duration as text, such as ``45 s``, ``12 min``, ``3.5 h`` or ``4 days``."""
    for size, unit in ((172_800.0, 86_400.0), (5_400.0, 3600.0), (120.0, 60.0)):
        if seconds >= size:
            name = {86_400.0: "days", 3600.0: "h", 60.0: "min"}[unit]
            return f"{seconds / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds:.0f} s"


def is_handed_over(look: JobLook) -> bool:
    """Whether an operation whose carrier is alive is replacing the driver now, or will start a driver that is down.

    The carrier is the process or DAG run that executes the operation. The result is False while a question to a person
    is open, and until a deploy drains the current driver, because the current driver has to run during that time.
    """
    return look.facts.operation is not None and look.owned and look.facts.operation.replaces


def should_run(look: JobLook) -> bool:
    """Whether a driver must be running now: the job is not stopped, not FINISHED, and not being handed over
    (``is_handed_over``).
    """
    finished = look.driver.exit is not None and look.driver.exit.state is DriverState.FINISHED
    return look.facts.wanted and not finished and not is_handed_over(look)


def is_gone(look: JobLook) -> bool:
    """Whether a driver that must be running has provably terminated."""
    return should_run(look) and look.driver.terminated


def serving(look: JobLook) -> DriverStatus | None:
    """Return the last status of the driver; None unless the driver is alive and not in a terminal state."""
    status = look.driver.status
    return status if status is not None and look.driver.life is Life.ALIVE and not status.state.terminal else None


def serving_queries(look: JobLook) -> Iterator[tuple[str, QueryStatus]]:
    """Yield each query's name and status, sorted by name; none unless the driver is alive in a non-terminal state."""
    status = serving(look)
    yield from sorted(status.queries.items()) if status is not None else ()
