"""Observes a running driver: terminated runs of Spark, whether the JVM is alive, and whether the driver still owns its
queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from streamkeeper.driver.ending import jvm_ended
from streamkeeper.driver.progress import EventListener, RunEnded
from streamkeeper.driver.queries import ServedQuery
from streamkeeper.driver.taking_over import DriverContext
from streamkeeper.errors import Fenced


class Observer:
    """Listens to the runs of queries, and maps each run to its query; used by the main thread only."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._runs: dict[str, str] = {}
        self._heard: list[Any] = []
        self._listener = EventListener(context.status_reporter, context.timings, context.wakeups, self._runs.get)

    def listen_to(self, queries: Iterable[ServedQuery]) -> None:
        """Receive the events of these queries' runs from now on.

        A job may build each query in a session of its own, and a session reports only the events of its own queries.
        """
        from pyspark.java_gateway import ensure_callback_server_started

        spark: Any = self._context.session.spark
        ensure_callback_server_started(spark.sparkContext._gateway)
        wrapper = spark._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self._listener)
        for query in queries:
            session: Any = query.planned.query.df.sparkSession._jsparkSession
            if not any(session.equals(heard) for heard in self._heard):
                session.streams().addListener(wrapper)
                self._heard.append(session)

    def note_start(self, query: ServedQuery) -> None:
        """Record the id of the query's present run, by which the run's events are mapped to the query."""
        self._runs[query.run_id] = query.name

    def take_ends(self) -> Iterator[tuple[str, RunEnded]]:
        """Yield each run that has terminated: the run's query and its end. Each end is yielded only once. Runs that
        this driver did not start are ignored.
        """
        while self._listener.ended:
            event = self._listener.ended.pop(0)
            name = self._runs.pop(event.run, None)
            if name is not None:
                yield name, event

    def check_jvm(self) -> None:
        """Raise Ending, which leads to a restart, if the JVM has terminated."""
        if self._context.session.dead:
            raise jvm_ended(self._context.session)

    def check_owner(self, queries: Iterable[ServedQuery]) -> None:
        """Check, without a request, that this driver still owns the queries, from the state that the gate and the
        heartbeat have read. Raises Fenced if the claim of a query is no longer valid. If the heartbeat found records
        missing in the store, raises the heartbeat's error.
        """
        if self._context.channel.lost is not None:
            raise self._context.channel.lost
        state = self._context.channel.state
        for query in queries:
            superseded = query.claim.superseded_by(state) if state is not None else ""
            if superseded:
                raise Fenced(f"query {query.name}: {superseded}")
