"""Rules about a driver's dependencies and resources: store, disk, memory, checkpoint, source and sink."""

from __future__ import annotations

from streamkeeper.health.driver_rules import faults, find_told
from streamkeeper.health.health_rule import Found, Rule, should_run
from streamkeeper.model.protocol.driver_messages import ExitCode
from streamkeeper.model.protocol.fault_kinds import Fault
from streamkeeper.model.watch.health import JobLook, Urgency


def _store(look: JobLook, _: float) -> Found:
    if "store" in look.unlooked:
        yield "", f"the store cannot be read: {look.unlooked['store']}"
    elif look.facts.wanted and look.driver.exit is not None and look.driver.exit.code == ExitCode.STORE_LOST:
        yield "", f"its driver ended because the store did not answer: {look.driver.exit.error}"
    else:
        yield from find_told(Fault.STORE_LOST, "the store does not answer its driver")(look, 0)


def _journal_lost(look: JobLook, _: float) -> Found:
    if look.lost:
        yield "", look.lost


def _journal_unreadable(look: JobLook, _: float) -> Found:
    if look.unreadable:
        ended = look.driver.terminated
        driver = f"; its driver {look.instance} has ended: {look.driver.why}" if look.instance and ended else ""
        yield "", f"its journal cannot be read: {look.unreadable}{driver}"


def _outdated(look: JobLook, _: float) -> Found:
    if look.outdated:
        yield "", look.outdated


def _missing(look: JobLook, _: float) -> Found:
    for query, checkpoint in sorted(look.checkpoints.items()):
        if checkpoint.lost:
            yield query, f"checkpoint {checkpoint.version} is not what was recorded: {checkpoint.lost}"
    seen = {query for query, checkpoint in look.checkpoints.items() if checkpoint.lost}
    lost = [(query, text) for query, (fault, text) in faults(look).items() if fault is Fault.CHECKPOINT_LOST]
    if look.facts.wanted and not seen:
        yield from lost


def _damaged(look: JobLook, _: float) -> Found:
    """Find damage in the checkpoint of a terminated driver, or damage that a driver reported when it could not read
    it."""
    seen = {query: checkpoint.damaged for query, checkpoint in sorted(look.checkpoints.items()) if checkpoint.damaged}
    if should_run(look):
        for query, damaged in seen.items():
            yield query, f"checkpoint {look.checkpoints[query].version} is damaged: {damaged}"
    for query, cause in find_told(Fault.CHECKPOINT_DAMAGED, "its checkpoint cannot be read")(look, 0):
        if query not in seen and (query or not seen):
            yield query, cause


def _input_gone(look: JobLook, _: float) -> Found:
    if should_run(look):
        for query, checkpoint in sorted(look.checkpoints.items()):
            if checkpoint.input_gone:
                yield query, checkpoint.input_gone


def _unlooked(look: JobLook, _: float) -> Found:
    for part, why in sorted(look.unlooked.items()):
        if part != "store":
            yield "", f"{part} could not be checked: {why}"
    if should_run(look):
        for query, checkpoint in sorted(look.checkpoints.items()):
            if checkpoint.input_unchecked:
                yield query, f"{checkpoint.input_unchecked}; Spark runs the batch without missing files"


RULES: tuple[Rule, ...] = (
    Rule(
        "store-out-of-reach",
        Urgency.PAGE,
        None,
        "",
        "make the store reachable again. Drivers resume automatically once it answers",
        "The store is down",
        _store,
    ),
    Rule(
        "journal-lost",
        Urgency.PAGE,
        None,
        "",
        "put registry/{job} back in the store. If it is lost, run `streamkeeper registry rebuild {job} --dry-run`",
        "The journal of a job is lost",
        _journal_lost,
    ),
    Rule(
        "journal-unreadable",
        Urgency.PAGE,
        None,
        "",
        "put the reported entry back unchanged, or run the newer version that wrote it. Do not delete any record",
        "A journal entry cannot be read",
        _journal_unreadable,
    ),
    Rule(
        "journal-outdated",
        Urgency.PAGE,
        None,
        "",
        "put the newer store back. If it is lost, move the registry folder of {job} away and run `streamkeeper registry"
        " rebuild`",
        "An older copy of the store was put back",
        _outdated,
    ),
    Rule(
        "disk-full",
        Urgency.PAGE,
        None,
        "",
        "free disk space, but not inside a checkpoint directory, or free the other exhausted resource. Then start"
        " {job}",
        "The disk is full",
        find_told(Fault.DISK_FULL, "the machine lacks disk space or another resource"),
    ),
    Rule(
        "out-of-memory",
        Urgency.PAGE,
        None,
        "",
        "give the driver of {job} more memory or smaller batches, and deploy it",
        "The driver runs out of memory",
        find_told(Fault.OUT_OF_MEMORY, "its driver ran out of memory"),
    ),
    Rule(
        "checkpoint-missing",
        Urgency.PAGE,
        None,
        "",
        "put the directory back unchanged, or run `streamkeeper recover {job} --action restore`",
        "A checkpoint is lost or damaged beyond repair",
        _missing,
    ),
    Rule(
        "checkpoint-damaged",
        Urgency.PAGE,
        None,
        "",
        "run `streamkeeper recover {job}` to see the damage, the effect of a start, and the possible repairs",
        "A checkpoint may be damaged",
        _damaged,
    ),
    Rule(
        "sink-ahead",
        Urgency.PAGE,
        None,
        "",
        "put back the checkpoint that belongs to the sink, or run `streamkeeper recover {job} --action restore`",
        "The sink is ahead of its checkpoint",
        find_told(Fault.SINK_AHEAD, "the sink contains batches that its checkpoint has not planned"),
    ),
    Rule(
        "output-lost",
        Urgency.PAGE,
        None,
        "",
        "put the output back unchanged, or run `streamkeeper recover {job}` to see the alternatives and their cost",
        "An output is missing or an older copy",
        find_told(Fault.OUTPUT_LOST, "the output lacks batches that its checkpoint has committed"),
    ),
    Rule(
        "sink-down",
        Urgency.PAGE,
        None,
        "",
        "make the sink available again. {job} resumes automatically once the sink answers",
        "A sink or a source does not answer",
        find_told(Fault.SINK_DOWN, "a sink or another dependency of the job does not answer"),
    ),
    Rule(
        "source-down",
        Urgency.PAGE,
        None,
        "",
        "make the source available again. {job} resumes automatically once the source answers",
        "A sink or a source does not answer",
        find_told(Fault.SOURCE_DOWN, "the source does not answer"),
    ),
    Rule(
        "source-offset-lost",
        Urgency.PAGE,
        None,
        "",
        "put the input back if a copy exists. Otherwise it is lost; run `streamkeeper recover {job}` to see the"
        " options",
        "The source has dropped what comes next",
        find_told(Fault.SOURCE_LOST, "the source no longer holds the data that the query reads next"),
    ),
    Rule(
        "input-gone",
        Urgency.PAGE,
        None,
        "",
        "put the files back, because a start would run the batch without them. If you cannot, run `streamkeeper"
        " recover {job}`",
        "Files of the open batch are gone",
        _input_gone,
    ),
    Rule(
        "not-looked",
        Urgency.INFO,
        None,
        "",
        "fix the reported cause. Until then, the state of that part of {job} is unknown",
        "The watch could not look",
        _unlooked,
    ),
)
