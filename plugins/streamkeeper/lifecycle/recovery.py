"""Diagnoses a job: derives one cause and the possible actions from observations, without I/O.

The causes form a ladder. It starts with causes that hide every other fact, and ends with a healthy job. The first rung
that matches determines the cause; all observations become its evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from streamkeeper.lifecycle.headings import HEADING_OF
from streamkeeper.lifecycle.recovering_records import Rung, journal_lost, no_store, outdated
from streamkeeper.lifecycle.recovery_prices import price_of_replay, price_of_restart, too_short
from streamkeeper.lifecycle.unreadable_plans import replan_option
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.requests.diagnosis import (
    Diagnosis,
    Option,
    Price,
    Problem,
    QueryLook,
    RecoveryAction,
    RecoveryLook,
)
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

MENDED = frozenset({"last-commit-missing"})
"""Damage that a start repairs: the batch is replayed under the same number, by which a numbered sink recognises it."""


def diagnose(look: RecoveryLook, *, chosen: Collection[str] = ()) -> Diagnosis:
    """Return one cause with its evidence, and all actions, the impossible ones last.

    Of the possible actions, those that need no acceptance are listed first.

    ``chosen``: the queries that a person wants to restore or rebuild. If it is empty, the damaged queries are chosen.
    """
    cause, sentence, advice = next(found for rung in _LADDER if (found := rung(look)) is not None)
    options = [
        _restart(look, cause),
        replan_option(look, against=_against_any(look, cause)),
        _restore(look, cause, chosen),
        _rebuild(look, cause, chosen),
    ]
    ranked = sorted(options, key=lambda option: (not option.possible, option.asks))
    return Diagnosis(
        job=look.job,
        cause=cause,
        sentence=sentence,
        evidence=tuple(_evidence(look)),
        heading=HEADING_OF[cause],
        advice=advice or _advice(cause, ranked),
        options=tuple(ranked),
    )


def _not_deployed(look: RecoveryLook) -> Rung | None:
    if look.release:
        return None
    return Problem.NOT_DEPLOYED, f"job {look.job} has never had a current release", "deploy the job"


def _open(look: RecoveryLook) -> Rung | None:
    if not look.open_operation:
        return None
    evidence = f"operation {look.open_operation} is open{' and waits for a person' if look.waits else ''}"
    carry = "answer its question" if look.waits else "clear its failed task, or continue it with `--on-open continue`"
    return Problem.OPERATION_OPEN, evidence, f"{carry}. To abort the operation, use `--on-open abort`"


def _unreachable(look: RecoveryLook) -> Rung | None:
    if look.driver.life is not Life.UNKNOWN:
        return None
    why = look.driver.why
    evidence = f"driver {look.instance} cannot be observed from here, so its termination is not proven: {why}"
    return (
        Problem.DRIVER_UNREACHABLE,
        evidence,
        "diagnose the job on the driver's machine, or boot that machine. If the machine is permanently lost, run"
        f" `streamkeeper state-dead {look.job} {look.instance} --reason …`, or trigger the DAG streaming_state_dead",
    )


def _full(look: RecoveryLook) -> Rung | None:
    space = "free disk space, but delete nothing inside a checkpoint; then restart"
    return (Problem.DISK_FULL, look.full, space) if look.full else None


def _lost(look: RecoveryLook) -> Rung | None:
    evidence = [f"query {query.query}: {query.lost}" for query in look.queries if query.lost]
    return (Problem.CHECKPOINT_LOST, "; ".join(evidence), "") if evidence else None


def _damaged(look: RecoveryLook) -> Rung | None:
    evidence = [
        f"query {query.query}: its checkpoint {query.version} is damaged at {harm.where}"
        f" ({harm.shape}: {harm.evidence})"
        for query in look.queries
        for harm in query.harmed[:1]
    ]
    return (Problem.CHECKPOINT_DAMAGED, "; ".join(evidence), "") if evidence else None


def _ahead(look: RecoveryLook) -> Rung | None:
    evidence = [
        f"query {query.query}: {query.output} contains batch {query.holds} of {query.version}, but its checkpoint has"
        f" planned {'no batch' if query.planned is None else f'only up to {query.planned}'}: an older checkpoint"
        f" replaced it"
        for query in look.queries
        if query.ahead
    ]
    return (Problem.SINK_AHEAD, "; ".join(evidence), "") if evidence else None


def _output_lost(look: RecoveryLook) -> Rung | None:
    lost = [query for query in look.queries if query.output_lost]
    texts = [f"query {each.query}: output {each.output} lacks committed batches: {each.output_lost}" for each in lost]
    put_back = "restore the output to its last state, then restart. Otherwise rebuild it, or accept the missing batches"
    return (Problem.OUTPUT_LOST, "; ".join(texts), put_back) if texts else None


def _unproven(look: RecoveryLook) -> Rung | None:
    evidence = [
        f"query {query.query}, version {query.version}: {_on_start(query)}" for query in look.queries if query.unproven
    ]
    if not evidence or look.driver.life is Life.ALIVE:
        return None
    copy = f"run `streamkeeper snapshot take {look.job}`, then restore that copy, which the old driver cannot write"
    return Problem.OWNER_UNPROVEN, "; ".join(evidence), copy


def _input_gone(look: RecoveryLook) -> Rung | None:
    evidence = [f"query {query.query}: {query.input_gone}" for query in look.queries if query.input_gone]
    put_back = (
        "put the files back, then restart; without the files, Spark would run the batch and report no error. If they"
        f" were renamed or permanently deleted, run `streamkeeper snapshot take {look.job} --without-open-batch`, then"
        " restore"
    )
    return (Problem.INPUT_GONE, "; ".join(evidence), put_back) if evidence else None


def _dropped(look: RecoveryLook) -> Rung | None:
    pass_over = (
        "put the input back if there is a copy. Otherwise deploy a release that reads with failOnDataLoss=false; a"
        " person must approve that first, and sees the skipped offsets"
    )
    return (Problem.SOURCE_OFFSET_LOST, look.dropped, pass_over) if look.dropped else None


def _sink_down(look: RecoveryLook) -> Rung | None:
    evidence = [f"query {query.query}: {query.sink_unknown}" for query in look.queries if query.sink_down]
    if look.away and not look.driver.frozen and not evidence:
        evidence = [f"driver {look.instance} waits: {look.away}"]
    back = "make the output available; a running driver then continues automatically, an ended driver is restarted"
    return (Problem.SINK_DOWN, "; ".join(evidence), back) if evidence else None


def _stopped(look: RecoveryLook) -> Rung | None:
    if not look.stopped or look.driver.life is Life.ALIVE:
        return None
    return (
        Problem.STOPPED,
        f"the job was stopped by {look.stopped}",
        "no repair is needed; start the job when it should run",
    )


def _exhausted(look: RecoveryLook) -> Rung | None:
    if not look.exhausted or look.driver.frozen:
        return None
    more = "deploy with more memory for the driver, or with smaller batches; a restart alone fails in the same way"
    return Problem.OUT_OF_MEMORY, f"driver {look.instance} ran out of memory: {look.exhausted}", more


def _alive(look: RecoveryLook) -> Rung | None:
    """Diagnose a driver with live processes; return None for any other driver."""
    if look.driver.life is not Life.ALIVE:
        return None
    if look.driver.frozen:
        return Problem.DRIVER_FROZEN, f"driver {look.instance} is stopped (frozen): {look.driver.why}", ""
    failing = [f"query {query.query}: {query.failing}" for query in look.queries if query.failing]
    if failing:
        return Problem.BATCH_FAILS, f"the same batch fails repeatedly: {'; '.join(failing)}", _READ_THE_RECORD
    # A restarted driver reports its last run's error until every query has completed a trigger.
    if look.before or look.driver.state in (None, DriverState.STARTING, DriverState.STANDBY, DriverState.FAILED):
        broke = [
            each for each in look.queries if each.open_batch is not None and look.before and each.query in look.broke
        ]
        if broke:
            which = ", ".join(f"batch {query.open_batch} of {query.query}" for query in broke)
            return Problem.BATCH_FAILS, f"{which} failed until its driver ended: {look.before}", _READ_THE_RECORD
        ended = look.driver.error or look.before
        last_end = f": its last run ended with {ended}" if ended else ""
        return (
            Problem.DRIVER_STARTING,
            f"driver {look.instance} is starting and has not completed a batch yet{last_end}",
            "wait",
        )
    return Problem.NOTHING_WRONG, f"nothing is wrong: {look.instance} runs {look.release}", "nothing to do"


def _rebooted(look: RecoveryLook) -> Rung | None:
    if not look.driver.rebooted or look.driver.exit is not None:
        return None
    return Problem.MACHINE_REBOOTED, f"driver {look.instance} ended when its machine rebooted: {look.driver.why}", ""


def _ended(look: RecoveryLook) -> Rung:
    """Diagnose a driver that has terminated: on command, with an error, or without a report."""
    driver, state = look.driver, look.driver.state
    if state is DriverState.FINISHED:
        return (
            Problem.NOTHING_WRONG,
            f"nothing is wrong: {look.instance} read all available input and ended",
            "nothing to do",
        )
    if state is DriverState.FAILED and driver.by_signal:
        return Problem.DRIVER_KILLED, f"driver {look.instance} was {driver.error}, and no driver has run since", ""
    opened = [f"batch {query.open_batch} of {query.query}" for query in look.queries if query.open_batch is not None]
    if state is DriverState.FAILED and opened and driver.error:
        evidence = f"driver {look.instance} failed with {', '.join(opened)} open: {driver.error}"
        return Problem.BATCH_FAILS, evidence, _READ_THE_RECORD
    if state is not None and state.terminal and state is not DriverState.FAILED:
        return Problem.DRIVER_KILLED, f"driver {look.instance} ended ({state.value}) and no driver has run since", ""
    if state is DriverState.FAILED and driver.error:
        return Problem.DRIVER_FAILED, f"driver {look.instance} failed: {driver.error}", ""
    evidence = f"driver {look.instance} ended without a report, as a killed process does: {driver.why}"
    return Problem.DRIVER_KILLED, evidence, ""


_READ_THE_RECORD = (
    "read the error. If an output or a source was unavailable, restart. If a record causes the error, deploy a release"
    " that accepts that record"
)
_LADDER: tuple[Callable[[RecoveryLook], Rung | None], ...] = (
    *(
        no_store,
        journal_lost,
        outdated,
        _not_deployed,
        _open,
        _unreachable,
        _full,
        _lost,
        _damaged,
        _ahead,
        _output_lost,
        _input_gone,
    ),
    *(_dropped, _sink_down, _unproven, _stopped, _exhausted, _alive, _rebooted, _ended),
)
_NOTHING_CAN_BE_DONE = frozenset(
    {
        *(Problem.STORE_OUT_OF_REACH, Problem.JOURNAL_LOST, Problem.JOURNAL_OUTDATED, Problem.NOT_DEPLOYED),
        *(Problem.OPERATION_OPEN, Problem.DRIVER_UNREACHABLE, Problem.DISK_FULL),
    }
)


def _evidence(look: RecoveryLook) -> Iterator[str]:
    """Yield all observations, one line each, whatever the cause."""
    driver = look.driver
    if look.instance and driver.life is not None:
        said = f", its last report is {driver.state.value}" if driver.state is not None else ", it has not reported"
        yield f"driver {look.instance}: {driver.life.value}, {driver.why}{said}"
        if driver.error:
            yield f"driver {look.instance} reported: {driver.error}"
    if look.stopped:
        yield f"stopped by {look.stopped}"
    for query in look.queries:
        stands = "no batch" if query.committed is None else f"batch {query.committed}"
        opened = f", batch {query.open_batch} is open" if query.open_batch is not None else ""
        held = query.sink_unknown or f"contains {'no batch of it' if query.holds is None else f'batch {query.holds}'}"
        where = query.lost or f"{query.directory} has committed {stands}{opened}"
        yield f"query {query.query} {query.version}: {where}; output {query.output}: {held}"
        yield from (
            f"query {query.query}: {harm.shape} at {harm.where}: {harm.evidence}; {harm.on_start}"
            for harm in query.damages
            if harm.shape != "open-batch"
        )
        if query.replay is not None:
            known = "verified" if query.replay.verified else "not verified by a drill"
            yield f"query {query.query}: snapshot {query.replay.snapshot}, batch {query.replay.batch}, {known}"
        yield from (f"query {query.query}: {text}" for text in (query.input_unchecked, *query.passed_over) if text)


def _advice(cause: Problem, ranked: list[Option]) -> str:
    best = ranked[0]
    if not best.possible and cause is Problem.CHECKPOINT_LOST:
        return "put the directory back as it was, then restart; without it, no action is possible from here"
    if not best.possible:
        return "no action is possible from here; see the reason given for each action, and the runbook"
    person = ", and a person must accept the rows that it loses or duplicates" if best.asks else ""
    return f"{best.action.value}{person}"


def _restart(look: RecoveryLook, cause: Problem) -> Option:
    damaged = [query for query in look.queries if query.damaged and not (mendable(query) or query.only_output_lost)]
    why_not = _against_any(look, cause)
    if not why_not and cause is Problem.NOTHING_WRONG:
        why_not = "the job is healthy"
    if not why_not and damaged:
        why_not = "; ".join(f"query {query.query}: {_on_start(query)}" for query in damaged)
    missing = [
        f"query {query.query}: its open batch would run without the missing files"
        for query in look.queries
        if query.input_gone
    ]
    # Every start checks the sources again, and the files may have been put back.
    unless = "; the start is refused unless the missing input is back" if look.dropped else ""
    return Option(
        action=RecoveryAction.RESTART,
        does=f"start {look.release} on the current checkpoint versions{unless}",
        why_not=why_not or "; ".join(missing),
        prices=tuple(price_of_restart(query) for query in look.queries),
        stands_on=(look.release, *(f"{query.query}/{query.version}" for query in look.queries)),
    )


def mendable(query: QueryLook) -> bool:
    """Whether starting the query repairs all its damage. This requires an output that recognises the replayed batch."""
    shapes = {harm.shape for harm in query.harmed}
    knows = capabilities_of(query.sink).knows_batches
    alone = not (query.lost or query.ahead or query.unproven)
    return bool(shapes) and shapes <= MENDED and alone and knows


def _restore(look: RecoveryLook, cause: Problem, chosen: Collection[str]) -> Option:
    wanted = [query for query in look.queries if query.query in (chosen or _damaged_queries(look))]
    none = [f"query {query.query}: {query.no_restore}" for query in wanted if query.replay is None]
    none += [f"query {query.query}: {short}" for query in wanted if (short := too_short(query))]
    why_not = _against_any(look, cause) or _against_none(look, wanted, "restore") or "; ".join(none)
    taken = [(query, query.replay) for query in wanted if query.replay is not None]
    text = ", ".join(f"{query.query} from {replay.snapshot} (batch {replay.batch})" for query, replay in taken)
    return Option(
        action=RecoveryAction.RESTORE,
        does=f"restore {text} as the next checkpoint version, then start {look.release}" if text else "",
        why_not=why_not,
        prices=tuple(price_of_replay(query, replay) for query, replay in taken),
        snapshots={query.query: replay.snapshot for query, replay in taken},
        stands_on=(look.release, *(f"{look.job}/{query.query} {replay.snapshot}" for query, replay in taken)),
    )


def _rebuild(look: RecoveryLook, cause: Problem, chosen: Collection[str]) -> Option:
    wanted = [query for query in look.queries if query.query in (chosen or _damaged_queries(look))]
    none = [f"query {query.query}: {query.no_rebuild}" for query in wanted if query.no_rebuild]
    why_not = _against_any(look, cause) or _against_none(look, wanted, "rebuild") or "; ".join(none)
    swapped = "all rows, unpublished; they replace the output once they cover all input that was read"
    return Option(
        action=RecoveryAction.REBUILD,
        does=f"rebuild {', '.join(query.query for query in wanted)} from the start of its sources" if wanted else "",
        why_not=why_not,
        prices=tuple(
            Price(query=query.query, output=query.output, read=query.rebuild, written=swapped) for query in wanted
        ),
        stands_on=(look.release, *(f"{query.query}/{query.version}" for query in wanted)),
    )


def _against_any(look: RecoveryLook, cause: Problem) -> str:
    """Return why no action at all is possible now; empty if an action may be possible."""
    if cause in _NOTHING_CAN_BE_DONE:
        return _CAUSES[cause]
    # Such a query cannot be started; the actions of a recovery are its remedy.
    forked = any(query.unproven for query in look.queries)
    return "a person stopped the job; start it first" if look.stopped and not forked else ""


_CAUSES = {
    Problem.STORE_OUT_OF_REACH: "the store does not answer",
    Problem.JOURNAL_LOST: "the job's journal is lost",
    Problem.JOURNAL_OUTDATED: "the journal is older than the written data",
    Problem.NOT_DEPLOYED: "the job has no current release",
    Problem.OPERATION_OPEN: "another operation is open",
    Problem.DRIVER_UNREACHABLE: "the termination of the old driver cannot be proven from here",
    Problem.DISK_FULL: "the disk is full",
}


def _against_none(look: RecoveryLook, wanted: list[QueryLook], verb: str) -> str:
    return "" if wanted else f"no checkpoint of {look.job} is damaged; to {verb} a healthy query, name it"


def _damaged_queries(look: RecoveryLook) -> frozenset[str]:
    return frozenset(query.query for query in look.queries if query.damaged)


def _on_start(query: QueryLook) -> str:
    """Return the effect of a start on a damaged checkpoint."""
    if query.lost:
        return "its checkpoint is not the recorded one; a start would read from the beginning or repeat batches"
    if query.harmed:
        return query.harmed[0].on_start
    if query.output_lost:
        return "its output would continue without the missing batches"
    if query.unproven:
        return f"{query.unproven} may still write there: its termination was stated, not proven"
    return "its output would silently skip new batches under numbers that it already contains"
