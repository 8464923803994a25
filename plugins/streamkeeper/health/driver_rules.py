"""Rules about the driver process: whether it is alive, how often it restarted, and with which error it terminated."""

from __future__ import annotations

from collections.abc import Callable

from streamkeeper.health.health_rule import Found, Rule, is_gone, is_handed_over, should_run, tell_span
from streamkeeper.health.told_errors import fault_of
from streamkeeper.model.protocol.driver_messages import DriverState, cause_of_code
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.restart_budgets import Cause
from streamkeeper.model.records.step import label_of
from streamkeeper.model.watch.health import JobLook, Urgency

LOOP_S = 600.0
LOST_S = 600.0
STUCK_S = 1800.0
DELAY_RULE = "lag-seconds"
"""The rule whose threshold says how late the output of a job may be."""
RESTARTS_S = 3600.0
LONGEST_ERROR = 700
_USED_UP = ("restarts", "used up")
"""Words in the error sentence that the first versions of Streamkeeper stored, without a cause, when all restarts were
used up.
"""
_KINDS = {
    Cause.DEPENDENCY: (Fault.SINK_DOWN, Fault.STORE_LOST, Fault.SOURCE_DOWN),
    Cause.CAPACITY: (Fault.DISK_FULL, Fault.OUT_OF_MEMORY),
}
"""Restart cause -> the faults that it can mean. If the error text fits none of these faults, the first one applies."""


def told_cause(look: JobLook) -> Cause | None:
    """Return the recorded reason why the driver terminated or waits. If no reason is recorded, for instance because an
    older version of Streamkeeper recorded none, return the reason that the driver's exit code indicates.

    Return None if no exit code is recorded either, or if the code indicates an intended exit or an unspecific failure.
    """
    end = look.driver.exit
    recorded = next((cause for cause in Cause if cause.value == look.driver.cause), None)
    by_code = cause_of_code(end.code) if end is not None and recorded is None else None
    return recorded or (by_code if by_code is not Cause.FAILURE else None)


def faults(look: JobLook) -> dict[str, tuple[Fault, str]]:
    """Return the kind of fault and the error text of each query whose error has a recognised kind of fault, by query
    name. The entry for the whole job has an empty name.
    """
    driver, facts = look.driver, look.facts
    queries = driver.status.queries.items() if driver.status is not None else ()
    reported = {"": (driver.fault, driver.reported)}
    reported |= {query: (status.fault, status.error) for query, status in queries if status.error}
    # Kinds that fit the recorded cause take precedence over other kinds that the text matches.
    likely = _KINDS.get(told_cause(look) or Cause.FAILURE, ())
    kinds = {query: (fault_of(recorded, text, likely), text) for query, (recorded, text) in reported.items()}
    found = {query: (fault, text) for query, (fault, text) in kinds.items() if fault is not None}
    if likely and not any(fault in likely for fault, _ in found.values()):
        found[""] = (likely[0], driver.reported or "it reported no error")
    if driver.ended_by is not None and is_gone(look) and "" not in found:
        found[""] = (driver.ended_by, driver.why)
    same = facts.desired_release == facts.serving_release
    refused = fault_of(facts.last_fault, facts.last_failure) if is_gone(look) and same else None
    if refused in (Fault.SOURCE_LOST, Fault.OUTPUT_LOST):
        # Not the terminated driver detected this fault, but the operation that tried to restart the job.
        found[""] = (refused, facts.last_failure)
    # The error of a query is also an error of its driver. It is reported once, for the query.
    own = {fault for query, (fault, _) in found.items() if query}
    return {query: pair for query, pair in found.items() if query or pair[0] not in own}


def find_told(fault: Fault, sentence: str) -> Callable[[JobLook, float], Found]:
    """Return the search function of a rule that finds errors of one kind.

    ``fault``: the kind of error; ``sentence``: what such an error means, for a person.
    """

    def find(look: JobLook, _: float) -> Found:
        if not look.facts.wanted:
            return
        for query, (kind, text) in faults(look).items():
            if kind is fault:
                yield query, f"{sentence}: {text[:LONGEST_ERROR]}"

    return find


def _dead(look: JobLook, _: float) -> Found:
    if is_gone(look):
        who = look.instance or "its driver"
        evidence = f"{who} counts as terminated" if look.facts.ended_stated else f"no process of {who} is left"
        yield "", f"{evidence}: {_last_word(look)}{look.driver.why or 'not seen'}"


def _last_word(look: JobLook) -> str:
    if look.driver.exit is not None:
        return f"it ended as {look.driver.exit.state.value}" + (
            f" ({look.driver.reported[:LONGEST_ERROR]}); " if look.driver.reported else "; "
        )
    return "it left no exit record; "


def _rebooted(look: JobLook, _: float) -> Found:
    if is_gone(look) and look.driver.rebooted:
        yield (
            "",
            f"the machine has rebooted since {look.instance} was started, and the job has not been restarted",
        )


def _looping(look: JobLook, most: float) -> Found:
    if not should_run(look):
        return
    recent = [ago_s for ago_s in look.restarts_s if ago_s <= LOOP_S]
    if len(recent) >= most:
        error = look.driver.reported or "it reported no error"
        yield "", f"its driver restarted {len(recent)} times in {tell_span(LOOP_S)}: {error[:LONGEST_ERROR]}"
    elif look.driver.exit is not None and look.driver.exit.state is DriverState.FAILED and _used_up(look):
        yield "", f"its driver failed and has used all its restarts: {look.driver.reported[:LONGEST_ERROR]}"


def _used_up(look: JobLook) -> bool:
    """Whether the supervisor gave up restarting the driver: the supervisor was not killed, and no permanent cause
    forbade a restart.
    """
    assert look.driver.exit is not None
    # An end by a signal has no cause. Records of the first versions have no causes at all, only this sentence.
    matches = all(word in look.driver.exit.error for word in _USED_UP)
    return told_cause(look) is Cause.FAILURE or (not look.driver.exit.cause and matches)


def _restarted(look: JobLook, most: float) -> Found:
    recent = [ago_s for ago_s in look.restarts_s if ago_s <= RESTARTS_S]
    if should_run(look) and len(recent) >= most:
        error = look.driver.reported
        error_text = f": {error[:LONGEST_ERROR]}" if error else ""
        yield "", f"its driver restarted {len(recent)} times in {tell_span(RESTARTS_S)}{error_text}"


def _silent(look: JobLook, longest_s: float) -> Found:
    if should_run(look) and look.driver.life is Life.ALIVE and look.silent_s >= longest_s:
        yield "", f"its driver is running ({look.driver.why}) but has not reported for {tell_span(look.silent_s)}"


def _frozen(look: JobLook, longest_s: float) -> Found:
    if should_run(look) and look.driver.life is Life.ALIVE and look.driver.frozen and look.silent_s >= longest_s:
        yield "", f"processes of its driver are stopped ({look.driver.why}); no report for {tell_span(look.silent_s)}"


def _frozen_in_part(look: JobLook, longest_s: float) -> Found:
    """Find a driver that still reports although some of its processes are stopped (frozen). The stopped process is
    usually the supervisor, which then could not restart the driver.
    """
    if should_run(look) and look.driver.life is Life.ALIVE and look.driver.frozen and look.frozen_s >= longest_s:
        stopped = f"processes of its driver have been stopped for {tell_span(look.frozen_s)} ({look.driver.why})"
        yield "", f"{stopped}, but it still reports"


def _fenced(look: JobLook, _: float) -> Found:
    if is_gone(look) and look.driver.state is DriverState.FENCED:
        why = look.driver.reported or look.driver.why
        yield "", f"{look.instance} was superseded, and no other driver is running: {why}"


def _refused(look: JobLook, _: float) -> Found:
    if is_gone(look) and told_cause(look) is Cause.PERMANENT and look.driver.state is not DriverState.FENCED:
        yield "", f"its driver ended with an error that a restart cannot fix: {look.driver.reported[:LONGEST_ERROR]}"


def _unknown(look: JobLook, _: float) -> Found:
    if should_run(look) and look.driver.life is Life.UNKNOWN:
        yield "", f"whether {look.instance} is running cannot be determined here: {look.driver.why}"


def _lost(look: JobLook, longest_s: float) -> Found:
    """Find a driver that cannot be observed and has not reported for longer than the limit.

    The limit is the job's threshold of this rule, or else the delay that its ``lag-seconds`` allows.
    """
    allowed = longest_s
    if "driver-lost" not in look.facts.thresholds:
        allowed = look.facts.thresholds.get(DELAY_RULE) or longest_s
    if should_run(look) and look.driver.life is Life.UNKNOWN and look.silent_s >= allowed:
        silent = f"has reported nothing for {tell_span(look.silent_s)} (limit: {tell_span(allowed)})"
        yield (
            "",
            f"{look.instance} {silent}; whether it is running cannot be determined: {look.driver.why}",
        )


def _stuck(look: JobLook, longest_s: float) -> Found:
    """Find an operation that is replacing the driver and whose carrier is alive, while no driver has reported for at
    least the limit.
    """
    operation = look.facts.operation
    finished = look.driver.exit is not None and look.driver.exit.state is DriverState.FINISHED
    if operation is None or not look.facts.wanted or finished or not is_handed_over(look):
        return
    # A job that was down before the operation started has been down for longer than the operation took.
    down_s = min(look.silent_s, look.open_s)
    if down_s >= longest_s:
        step = label_of(operation.step)
        yield (
            "",
            f"no driver has reported for {tell_span(down_s)}: {operation.kind} {operation.operation} is at step {step}",
        )


def _owner_unproven(look: JobLook, _: float) -> Found:
    """Find a checkpoint version that a driver may still write, because that driver's termination was only stated by a
    person and not proven. A start would be refused.
    """
    if is_gone(look):
        for query, checkpoint in sorted(look.checkpoints.items()):
            if checkpoint.unproven:
                stated = f"the termination of {checkpoint.unproven} was stated, not proven"
                yield query, f"no driver may continue in checkpoint {checkpoint.version}: {stated}"


_AGAIN = (
    "the watch restarts it. If the job does not run then, run `streamkeeper recover {job}` to see the cause and the"
    " remedy"
)

RULES: tuple[Rule, ...] = (
    Rule("driver-dead", Urgency.PAGE, None, "", _AGAIN, "Nothing serves", _dead),
    Rule("machine-rebooted", Urgency.PAGE, None, "", _AGAIN, "The machine was rebooted", _rebooted),
    Rule(
        "driver-fenced",
        Urgency.PAGE,
        None,
        "",
        "run `streamkeeper history {job}` to see the driver that superseded it. Start {job} once no other driver is"
        " running",
        "Nothing serves",
        _fenced,
    ),
    Rule(
        "driver-refused",
        Urgency.PAGE,
        None,
        "",
        "run `streamkeeper recover {job}` to see what to fix first. Then start or deploy the job",
        "The driver restarts again and again",
        _refused,
    ),
    Rule(
        "driver-unknown",
        Urgency.TICKET,
        None,
        "",
        "run the watch on the machine, or in the pid namespace, where the driver was started. If that is permanently"
        ' lost, run `streamkeeper state-dead {job} {instance} --reason "how you know"`, which shows the risks. Add'
        " --accept to record the statement",
        "Nothing serves",
        _unknown,
    ),
    Rule(
        "driver-lost",
        Urgency.PAGE,
        LOST_S,
        "seconds",
        "bring its node back. If the node is permanently lost, run the DAG streaming_state_dead, or run `streamkeeper"
        ' state-dead {job} {instance} --reason "how you know"`, which shows the risks. Add --accept to record the'
        " statement. Then run `streamkeeper recover {job} --action restore` to restore the copy",
        "A driver's machine is gone",
        _lost,
    ),
    Rule(
        "operation-stuck",
        Urgency.PAGE,
        STUCK_S,
        "seconds",
        "read the log of the task or shell that runs the operation. If that task or shell hangs, stop it. Then run"
        " `streamkeeper deploy {job} --on-open continue` or `streamkeeper deploy {job} --on-open abort`",
        "An operation is open",
        _stuck,
    ),
    Rule(
        "owner-unproven",
        Urgency.PAGE,
        None,
        "",
        "run `streamkeeper snapshot take {job}`. Then run `streamkeeper recover {job} --action restore` to continue"
        " in a copy",
        "A driver's machine is gone",
        _owner_unproven,
    ),
    Rule(
        "crash-loop",
        Urgency.PAGE,
        3,
        "restarts in ten minutes",
        "read the error, and run `streamkeeper logs {job}` and `streamkeeper recover {job}`. If a release introduced"
        " the error, roll back",
        "The driver restarts again and again",
        _looping,
    ),
    Rule(
        "restarts",
        Urgency.TICKET,
        1,
        "restarts in an hour",
        "read the log of {job}. The job is running again, but the cause may recur",
        "The driver restarts again and again",
        _restarted,
    ),
    Rule(
        "heartbeat-lost",
        Urgency.PAGE,
        90,
        "seconds",
        "run `streamkeeper status {job} --watch`. If the heartbeat does not grow, deploy the current release again",
        "The heartbeat does not grow",
        _silent,
    ),
    Rule(
        "frozen",
        Urgency.PAGE,
        30,
        "seconds",
        "send SIGCONT to the stopped processes, or deploy the current release of {job} again",
        "The heartbeat does not grow",
        _frozen,
    ),
    Rule(
        "frozen-in-part",
        Urgency.TICKET,
        30,
        "seconds",
        "send SIGCONT to the stopped processes. The supervisor of {job} may be among them",
        "The heartbeat does not grow",
        _frozen_in_part,
    ),
)
