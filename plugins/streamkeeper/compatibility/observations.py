"""Findings from outside the two manifests: about the checkpoint, the sources and the output. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamkeeper.compatibility.rule import APPROVE, RISK_INTENDED
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.settings.row_risks import risks_of_confs
from streamkeeper.sources.known_sources import READ_FROM, cleaner_of, risk_of_option

_CREATED_AGAIN = "source-topic-created-again"


def open_batch_cannot_restart(batch: int) -> Finding:
    """Report an open batch of named sources. Because of a bug in Spark 4.2.0, every start with such a batch fails."""
    return Finding(
        rule="open-batch-of-named-sources",
        severity=Severity.FATAL,
        where=f"checkpoint, batch {batch}",
        evidence="Spark 4.2.0 cannot start from an open batch of named sources (NoSuchElementException: None.get)",
        hint="switch to a new checkpoint version. The query then reads its input again. Only named sources have this"
        " fault",
        reference="measured: name_same",
    )


def checkpoint_lost(version: str, loss: str, hint: str) -> Finding:
    """Report a lost checkpoint. In an empty directory Spark starts from the beginning; in an older copy it reruns
    batches.
    """
    return Finding(
        rule="checkpoint-lost",
        severity=Severity.FATAL,
        where=f"checkpoint {version}",
        evidence=loss,
        hint=hint,
        reference="docs/operations/runbook.md: A checkpoint is lost or damaged beyond repair",
    )


def release_unknown(version: str, why: str) -> Finding:
    """Report that the release that wrote a checkpoint is unknown, so that only the checkpoint's files can be
    compared.
    """
    return Finding(
        rule="release-not-on-record",
        severity=Severity.OPAQUE,
        where=f"checkpoint {version}",
        evidence=why,
        hint=f"{APPROVE}. Approve if the candidate has the same code, params and sources as the release that wrote"
        " the state",
        reference="docs/operations/runbook.md: The store is lost",
    )


def checkpoint_of_another(version: str, evidence: str, hint: str) -> Finding:
    """Report a checkpoint of another installation. Two installations on one checkpoint would both write, because
    neither has a record of the other's drivers.
    """
    return Finding(
        rule="checkpoint-of-another-installation",
        severity=Severity.FATAL,
        where=f"checkpoint {version}",
        evidence=evidence,
        hint=hint,
    )


def checkpoint_elsewhere(version: str, directory: str) -> Finding:
    """Report a checkpoint version outside the configured location. A version stays where it was created, because the
    configuration (STREAMKEEPER_CHECKPOINTS) applies to new versions only.
    """
    return Finding(
        rule="checkpoint-elsewhere",
        severity=Severity.NOTE,
        where=f"checkpoint {version}",
        evidence=directory,
        hint="no action is needed: this version stays in its directory, because STREAMKEEPER_CHECKPOINTS applies only"
        " to new versions",
    )


def input_names_unreadable(message: str) -> Finding:
    """Report a batch with input files whose names make Spark 4.2.0 read files twice, because of a bug. The driver stops
    this batch at every start.
    """
    return Finding(
        rule="input-names-unreadable",
        severity=Severity.FATAL,
        where="sources",
        evidence=message,
        hint="rename the files. Then run `streamkeeper snapshot take JOB --without-open-batch`. Then run `streamkeeper"
        " recover JOB --action restore --query QUERY --reason … --accept-loss`. Spark then plans the batch again",
        reference="measured: names of input files",
    )


def input_gone(message: str, *, pending: bool) -> Finding:
    """Report missing input files of a batch. Spark replays a batch without its missing files and reports no error.

    ``pending``: whether the batch is the open one; otherwise the batch is the last committed one.
    """
    return Finding(
        rule="input-of-open-batch-gone" if pending else "input-of-last-batch-gone",
        severity=Severity.FATAL if pending else Severity.NOTE,
        where="sources",
        evidence=message,
        hint="restore the files, then start" if pending else "the rehearsal read less input than the query did",
    )


def input_not_checked(message: str) -> Finding:
    """Report input files that cannot be checked. If a file is missing, Spark runs the batch without it and reports no
    error, so a person must be informed.
    """
    return Finding(
        rule="input-not-checked",
        severity=Severity.NOTE,
        where="sources",
        evidence=message,
        hint="check by hand that these files still exist: if a file is missing, Spark runs the batch without it",
    )


def topic_short(source: str, message: str, *, answered: bool, dropped: bool = False) -> Finding:
    """Report a topic that lacks the checkpoint's offsets, or whose brokers do not reply. Spark would fail at the first
    batch, or read a topic to which the offsets do not belong.

    ``answered``: whether the brokers replied; ``dropped``: whether only the oldest records are missing.
    """
    unreadable = "deleted records cannot be read again: "
    unreadable += (
        "deploy a release that reads with failOnDataLoss=false; that deploy asks for approval of the skipped records"
        if dropped
        else "restore the topic with its old offsets, or read it with a job of another name and another output"
    )
    return Finding(
        rule="source-no-longer-holds-offsets" if answered else "source-out-of-reach",
        severity=Severity.FATAL,
        where=f"source {source}",
        evidence=message,
        hint=unreadable if answered else "try again when its brokers answer",
        reference="measured: kafka_topic_recreated",
    )


def topic_created_again(source: str, message: str) -> Finding:
    """Report a topic that was deleted and created again, and that has as many records as before. Spark would continue
    at the old offsets without an error, so a person must approve.
    """
    return Finding(
        rule=_CREATED_AGAIN,
        severity=Severity.OPAQUE,
        where=f"source {source}",
        evidence=message,
        hint=f"{APPROVE}. Approve if the topic was restored with its old offsets, or if the query need not read the new"
        " topic's records before these offsets",
        reference="measured: kafka_topic_recreated",
    )


def has_other_topics(findings: Iterable[Finding]) -> bool:
    """Whether a topic of the query was deleted and created again, according to the findings."""
    return any(finding.rule == _CREATED_AGAIN for finding in findings)


def topic_passed_over(source: str, message: str) -> Finding:
    """Report records that a start would skip. With ``failOnDataLoss`` off, Spark continues at the oldest record without
    an error, so a person must approve.
    """
    return Finding(
        rule="source-offsets-passed-over",
        severity=Severity.OPAQUE,
        where=f"source {source}",
        evidence=message,
        hint=f"{APPROVE}. If a person approves, the query never reads these records. After this deploy, set"
        " failOnDataLoss=true again and deploy once more",
        reference="measured: kafka_topic_replaced_fdl",
    )


def history_gone(source: str, clauses: str) -> Finding:
    """Report that input which was processed earlier no longer exists. A resume does not need that input, but a rebuild
    would.
    """
    return Finding(
        rule="history-gone",
        severity=Severity.NOTE,
        where=source,
        evidence=clauses,
        hint="keep the input for as long as a rebuild may be needed",
    )


def sink_ahead(output: str, written: int, planned: int | None) -> Finding:
    """Report a sink with batches that the checkpoint lacks. Spark would plan new batches with these numbers, and the
    sink would skip them without an error.
    """
    return Finding(
        rule="sink-ahead-of-checkpoint",
        severity=Severity.FATAL,
        where=f"sink {output}",
        evidence=f"the sink holds batch {written}, but the checkpoint has"
        f" {'no batch' if planned is None else f'no batch after {planned}'}",
        hint="restore the checkpoint, or start a new checkpoint version, with which the query reads its input again",
        reference="measured: sink_fresh_ckpt_new_data",
    )


def output_lost(output: str, loss: str) -> Finding:
    """Report an output that lacks batches which the checkpoint has committed. A start would write only later batches,
    so the missing ones would stay missing.
    """
    return Finding(
        rule="output-lost",
        severity=Severity.FATAL,
        where=f"sink {output}",
        evidence=f"{output}: {loss}",
        hint="restore the output or rebuild it. If the loss is intended, deploy with accept_output_loss",
    )


def output_of_another(output: str, owner: str, mine: str) -> Finding:
    """Report an output of another installation. A copied installation has the same names as the original, but owns none
    of the original's outputs.
    """
    return Finding(
        rule="output-of-another-installation",
        severity=Severity.FATAL,
        where=f"sink {output}",
        evidence=f"installation {owner[:8]} writes this output; this installation is {mine[:8]}",
        hint="deploy with params that name another output. If the store was lost, run `streamkeeper registry rebuild`"
        " instead",
        reference="docs/operations/runbook.md: A home or a store was copied or moved",
    )


def output_name_taken(output: str, conflict: str) -> Finding:
    """Report that a reserved name is not free. Internal tables and directories have reserved names, under which no
    other rows may be stored.
    """
    return Finding(
        rule="output-name-taken",
        severity=Severity.FATAL,
        where=f"sink {output}",
        evidence=conflict,
        hint="rename the table or directory that causes this conflict, or write to another output",
        reference="docs/internals/guarantees.md: Sinks",
    )


def output_of_another_query(output: str, owner: str, mine: str) -> Finding:
    """Report an output that another query owns according to its fence. An output may have only one writer."""
    return Finding(
        rule="output-of-another-query",
        severity=Severity.FATAL,
        where=f"sink {output}",
        evidence=f"the output belongs to query {owner}; query {mine} of the candidate would write to it",
        hint="write to the query's deployed output or to a new one: each query has its own output",
    )


def sink_log_gone(directory: str, committed: int) -> Finding:
    """Report a missing log of a file sink. Readers find the sink's files through this log. Spark would start a new log
    at the next batch, and readers cannot read a log that lacks the earlier batches.
    """
    return Finding(
        rule="sink-log-missing",
        severity=Severity.FATAL,
        where=f"sink {directory}",
        evidence=f"the directory holds files but no log; the checkpoint has committed batch {committed}",
        hint="restore _spark_metadata, or start a new checkpoint version with a new output",
        reference="measured: sink_metadata_deleted",
    )


def not_looked(look: str, reason: str) -> Finding:
    """Report a check that could not run. A check without a result does not count as a reason to resume."""
    return Finding(
        rule="not-looked",
        severity=Severity.OPAQUE,
        where=look,
        evidence=reason,
        hint=f"remove the cause, and check again. If you deploy without this check, {APPROVE}",
    )


def plan_not_deterministic(query: str) -> Finding:
    """Report that building the same code twice produced different queries. The query that will run may differ from the
    checked one.
    """
    return Finding(
        rule="plan-not-deterministic",
        severity=Severity.FATAL,
        where=f"query {query}",
        evidence="two builds of the candidate, one after the other, produced two different queries",
        hint="build the same query every time, without random names, times or unordered sets in the plan",
    )


def sources_without_promise(
    manifest: Manifest, reasons: dict[str, str], deployed: Manifest | None = None
) -> Iterator[Finding]:
    """Report sources that Streamkeeper cannot guarantee to replay, and sources that delete or archive their input.

    ``reasons``: kind of source -> why it has no such guarantee; ``deployed``: the running query's manifest,
    None if there is none.
    """
    before = {source.location: cleaner_of(source) for source in deployed.sources} if deployed is not None else {}
    for number, source in enumerate(manifest.sources):
        if source.kind in reasons:
            yield Finding(
                rule="source-cannot-be-replayed",
                severity=Severity.FATAL,
                where=f"source {number} ({source.kind})",
                evidence=reasons[source.kind],
                hint=READ_FROM,
            )
        if cleaner := cleaner_of(source):
            same = before.get(source.location, "") == cleaner
            yield Finding(
                rule="source-deletes-its-input" if same else "source-begins-to-delete-its-input",
                severity=Severity.NOTE,
                where=f"source {number} ({source.kind} {source.location})",
                evidence=f"cleanSource={cleaner}",
                hint="a rebuild from the beginning is not possible"
                if same
                else "leave cleanSource off if another query reads these files, or if a rebuild may be needed",
            )


def row_risks(manifest: Manifest, confs: Mapping[str, str]) -> Iterator[Finding]:
    """Report the session's confs and the readers' options with which rows can be lost without an error.

    ``confs``: all confs of the session, regardless of their origin.
    """
    found = [(f"conf {key}", f"{key}={confs[key]}", effect) for key, effect in risks_of_confs(confs)]
    for number, source in enumerate(manifest.sources):
        for option, value in sorted(source.options.items()):
            if effect := risk_of_option(source.kind, option, value):
                found.append((f"source {number} ({source.kind}), option {option}", f"{option}={value}", effect))
    for where, evidence, effect in found:
        yield Finding(
            rule="rows-at-risk",
            severity=Severity.NOTE,
            where=where,
            evidence=evidence,
            effect=effect,
            unconditional=True,
            hint=RISK_INTENDED,
        )
