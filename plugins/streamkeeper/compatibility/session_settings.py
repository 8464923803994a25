"""Rules about the session's settings: those that a checkpoint pins, and those that change results.

A setting that changes results requires a new checkpoint version, unless a proof shows that it cannot affect the state
of this query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from streamkeeper.compatibility.effects import NO_ACTION
from streamkeeper.compatibility.rule import (
    APPROVE,
    Rule,
    all_resolved,
    breaking,
    keeps_python_state,
    note,
    source_column,
    state_texts,
    state_uses,
    with_risk,
)
from streamkeeper.compatibility.setting_words import setting_meaning
from streamkeeper.compatibility.shown import given_change
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import BELOW_STATE, Manifest, columns_of, is_stateful
from streamkeeper.model.settings.row_risks import risk_of_conf
from streamkeeper.model.settings.spark_confs import (
    ANSI,
    CASE_SENSITIVE,
    CODE,
    SQL,
    TIME_ZONE,
    ConfRole,
    current_key,
    role,
)
from streamkeeper.sources.known_sources import source_of

Condition = Callable[[str, Manifest, Manifest], bool]
"""Called with a setting, the deployed manifest and the candidate manifest."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof that some settings cannot affect the state of a query.

    ``concerns``: whether the proof covers a setting; ``relies_on``: the conditions that must all be true.
    """

    name: str
    concerns: Callable[[str], bool]
    relies_on: Mapping[str, Condition]
    measured: str = ""

    def holds(self, key: str, old: Manifest, new: Manifest) -> bool:
        """Whether the proof covers the setting ``key``, and all conditions of the proof are true for both manifests."""
        return self.concerns(key) and all(condition(key, old, new) for condition in self.relies_on.values())


def setting_pinned(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a changed setting whose value the checkpoint fixes. The old value applies until there is a new checkpoint
    version.
    """
    for key, before, after in changed_settings(old, new, ConfRole.PINNED):
        measured = "conf_shuffle_up, conf_provider_hdfs_to_rocks, conf_compression"
        yield note("setting-pinned", key, value_change(before, after, setting_meaning(key)), measured)


def checkpoint_layout_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report a setting that changes the checkpoint's layout. Spark cannot continue in a checkpoint with another
    layout.
    """
    for key, before, after in changed_settings(old, new, ConfRole.REFUSED):
        evidence = value_change(before, after, setting_meaning(key))
        if (before or _UNSAID.get(key)) == (after or _UNSAID.get(key)):
            effect = "no effect: a Spark version without the setting has this layout only"
            yield note("setting-changed", key, evidence, "upgrade_4.1_4.2", effect=effect, unconditional=True)
            continue
        measured = "conf_ckptformat_1_2, conf_ckptformat_2_1"
        if key == CHECKPOINT_FORMAT and not is_stateful(old, new):
            effect = "no effect: the setting concerns state, and the query keeps none"
            yield note("setting-changed", key, evidence, "conf_ckptformat_stateless", effect=effect, unconditional=True)
            continue
        yield breaking("checkpoint-layout-changed", key, evidence, measured)


def tuning_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed settings that affect only timing and speed. Manifests do not record most of these settings."""
    for key, before, after in changed_settings(old, new, ConfRole.TUNING):
        evidence = value_change(before, after, setting_meaning(key))
        found = note("tuning-changed", key, evidence, "conf_nodata, conf_checkcorrectness, conf_tuning")
        yield with_risk(found, risk_of_conf(key, after or ""))


def setting_changed(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report changed settings that determine how new rows are computed, while the state keeps old results."""
    for key, before, after in changed_settings(old, new, ConfRole.MEANING):
        evidence, rule = value_change(before, after, setting_meaning(key)), _RULES.get(key, "setting-changed")
        if key in CODE:
            yield _other_code(key, evidence, stateful=is_stateful(old, new))
        elif not is_stateful(old, new):
            lenient = LENIENT.get(key, ("", ""))[1]
            found = _without_state(rule, key, evidence, errors=lenient == before or (key == ANSI and after == "true"))
            yield with_risk(found, risk_of_conf(key, after or ""))
        elif proof := next((entry for entry in PROOFS if entry.holds(key, old, new)), None):
            found = note(rule, key, evidence, proof.measured, hint=f"{NO_ACTION}: {proof.name}")
            yield with_risk(found, risk_of_conf(key, after or ""))
        else:
            yield breaking(rule, key, evidence)


def settings_respelled(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Report settings whose values differ only in spelling, because older releases recorded them as written."""
    if old.confs != new.confs and _as_read(old) == _as_read(new):
        keys = sorted(key for key, _ in old.confs.items() ^ new.confs.items())
        yield note(
            "settings-respelled", ", ".join(dict.fromkeys(keys)), "written differently; Spark reads the same values"
        )


RULES: tuple[Rule, ...] = (
    setting_pinned,
    checkpoint_layout_changed,
    tuning_changed,
    setting_changed,
    settings_respelled,
)

HASHED = "sha256:"
"""Prefix of a value that a manifest records as a digest."""

CHECKPOINT_FORMAT = f"{SQL}streaming.stateStore.checkpointFormatVersion"
_UNSAID = {CHECKPOINT_FORMAT: "1", f"{SQL}streaming.queryEvolution.enableSourceEvolution": "false"}
"""Maps a setting of the checkpoint's layout to the layout that Spark versions without the setting use."""
_RULES = {ANSI: "ansi-mode-changed", TIME_ZONE: "time-zone-changed"}


def value_change(before: str | None, after: str | None, noun: str = "") -> str:
    """Return the evidence of a changed setting; None means that the setting is not set. If a manifest keeps only the
    digest of a value, the evidence contains no value: it states only that the value was added, was removed or differs.
    """
    hashed = (before or "").startswith(HASHED), (after or "").startswith(HASHED)
    if any(hashed):
        how = "was added" if not before else "was removed" if not after else "differs"
        return f"{noun or 'the value'} {how} (a manifest keeps only its digest)"
    return given_change(before, after, noun)


def _other_code(key: str, evidence: str, *, stateful: bool) -> Finding:
    """Return the finding about a changed file of code, such as a jar, which may contain other functions than before."""
    if not stateful:
        return note("added-code-changed", key, evidence)
    hint = f"{APPROVE}. Approve if the functions of these files give the same values as before; otherwise restore them"
    return Finding(rule="added-code-changed", severity=Severity.OPAQUE, where=key, evidence=evidence, hint=hint)


def _without_state(rule: str, key: str, evidence: str, *, errors: bool) -> Finding:
    """Return the finding for a query without state. A result that was null until now may later stop the query, on rows
    that no rehearsal has read.
    """
    if not errors:
        return note(rule, key, evidence, hint=f"{NO_ACTION}: the query keeps no state")
    hint = (
        f"{APPROVE}. Approve if such rows do not occur, or if they should stop the query; otherwise keep the old value"
    )
    if key == ANSI:
        hint = f"{hint}, or use try_divide, try_cast and similar functions, which return null as before"
    reference = "measured: conf_ansi_on_stateless_fails"
    return Finding(rule=rule, severity=Severity.OPAQUE, where=key, evidence=evidence, hint=hint, reference=reference)


def _resolved(key: str, old: Manifest, new: Manifest) -> bool:
    return all_resolved(old, new)


def _sparks_own_sources(key: str, old: Manifest, new: Manifest) -> bool:
    return all(source_of(source.kind).of_spark for manifest in (old, new) for source in manifest.sources)


def _no_static_input(key: str, old: Manifest, new: Manifest) -> bool:
    """Whether both queries have no static input. Static files and tables are reread in each batch, with the session's
    settings.
    """
    found = {word for manifest in (old, new) for word in _RELATION.findall(_plans(manifest))}
    return found <= _STREAMS_AND_ROWS


def _no_python_below(key: str, old: Manifest, new: Manifest) -> bool:
    return not any(
        any(name.startswith(BELOW_STATE) for name in manifest.functions)
        or any(keeps_python_state(operator) for operator in manifest.operators)
        for manifest in (old, new)
    )


def _no_extension(key: str, old: Manifest, new: Manifest) -> bool:
    return not any(
        name in manifest.confs for manifest in (old, new) for name in ("spark.sql.extensions", "spark.plugins")
    )


def _nothing_in_session_zone(key: str, old: Manifest, new: Manifest) -> bool:
    """Whether no expression in or below the state uses the session's time zone."""
    return not any(_IN_SESSION_ZONE in text for text in state_texts(old, new))


def _no_time_from_text(key: str, old: Manifest, new: Manifest) -> bool:
    """Whether no time that is read from a text format without a time zone reaches the state."""
    return not any(
        state_uses(source_column(number, source, name), old, new)
        for manifest in (old, new)
        for number, source in enumerate(manifest.sources)
        if source.options.get("format") in _TEXT_FORMATS and "timezone" not in source.options
        for name, kind in columns_of(source.schema)
        if _TIMES.search(f"{name} {kind}")
    )


def _names_as_written(key: str, old: Manifest, new: Manifest) -> bool:
    """Whether both queries read only JSON and text, which match names exactly. Other formats look up the column in each
    file that they read.
    """
    formats = {source.options.get("format", "") for manifest in (old, new) for source in manifest.sources}
    return formats <= {"", "json", "text"} and not any(
        word in _plans(manifest) for manifest in (old, new) for word in _FORMATS if word not in ("json", "text")
    )


def _format_not_read(key: str, old: Manifest, new: Manifest) -> bool:
    return not any(
        word in text
        for manifest in (old, new)
        for text in (_plans(manifest), *(source.options.get("format", "") for source in manifest.sources))
        for word in _FORMATS
        if _concerns_format(key, word)
    )


def _no_named_source(key: str, old: Manifest, new: Manifest) -> bool:
    return not any(source.name for manifest in (old, new) for source in manifest.sources)


def _errors_until_now(key: str, old: Manifest, new: Manifest) -> bool:
    """Whether rows that could not be computed or read were errors until now. The state then contains only results that
    are equal in both modes.
    """
    strict, lenient = LENIENT[key]
    unsaid = None if key == ANSI else strict  # the default of ANSI was different before Spark 4
    return _as_read(old).get(key, unsaid) == strict and _as_read(new).get(key) == lenient


LENIENT = {
    ANSI: ("true", "false"),
    "spark.sql.files.ignoreCorruptFiles": ("false", "true"),
    "spark.sql.files.ignoreMissingFiles": ("false", "true"),
    "spark.sql.mapKeyDedupPolicy": ("EXCEPTION", "LAST_WIN"),
}
"""Maps a setting to the value with which an unusable row or file stops the query, and to the value with which the query
continues.
"""

WRITING = frozenset(
    SQL + name
    for name in (
        "avro.datetimeRebaseModeInWrite",
        "fileSource.insert.enforceNotNull",
        "parquet.datetimeRebaseModeInWrite",
        "parquet.fieldId.write.enabled",
        "parquet.int96RebaseModeInWrite",
        "parquet.output.committer.class",
        "parquet.outputTimestampType",
        "parquet.writeLegacyFormat",
        "sources.commitProtocolClass",
        "sources.outputCommitterClass",
        "sources.partitionOverwriteMode",
        "storeAssignmentPolicy",
    )
)
"""Settings for the writing of rows by a sink's function or format."""

_STREAMS_AND_ROWS = frozenset(
    {"streamingrelation", "streamingrelationv2", "streamingdatasourcev2relation", "localrelation", "onerowrelation"}
)
_RELATION = re.compile(r"\w*relation\w*")
_IN_SESSION_ZONE = "in session"
_TIMES = re.compile(r"\b(?:date|timestamp|timestamp_ntz)\b")
_TEXT_FORMATS = frozenset({"csv", "json", "text", "xml"})
_FORMATS = ("avro", "csv", "json", "orc", "parquet", "protobuf", "xml")
PYTHON = tuple(SQL + prefix for prefix in ("execution.arrow.", "execution.pandas.", "execution.py", "pyspark."))
_PYTHON_LEGACY = tuple(SQL + prefix for prefix in ("legacy.execution.py", "legacy.execution.pandas."))

PROOFS = (
    Proof(
        "until now such a row stopped the query, so the state contains none",
        lambda key: key in LENIENT,
        {"errors until now": _errors_until_now},
        "conf_ansi_off_agg, conf_ansi_off_overflow, conf_ansi_off_divide",
    ),
    Proof(
        "no value in the state depends on the time zone",
        lambda key: key == TIME_ZONE,
        {
            "state is understood": _resolved,
            "no expression in the session's zone": _nothing_in_session_zone,
            "no time read from text": _no_time_from_text,
            "no static input": _no_static_input,
            "no Python below state": _no_python_below,
            "Spark's own sources": _sparks_own_sources,
        },
        "conf_zone_no_times",
    ),
    Proof(
        "columns are matched by exact name here, whatever the setting",
        lambda key: key == CASE_SENSITIVE,
        {
            "JSON and text only": _names_as_written,
            "no static input": _no_static_input,
            "Spark's own sources": _sparks_own_sources,
        },
        "conf_case_sensitive",
    ),
    Proof(
        "no Python code runs in or below the state",
        lambda key: key.startswith((*PYTHON, *_PYTHON_LEGACY)),
        {"no Python below state": _no_python_below, "Spark's own sources": _sparks_own_sources},
    ),
    Proof(
        "this format is not used in or below the state",
        lambda key: any(_concerns_format(key, word) for word in _FORMATS),
        {
            "format not read": _format_not_read,
            "no static input": _no_static_input,
            "Spark's own sources": _sparks_own_sources,
        },
    ),
    Proof("affects only the writing of new rows, above the state", lambda key: key in WRITING, {}),
    Proof(
        "Spark reads the offset log of unnamed sources in both formats",
        lambda key: key == "spark.sql.streaming.offsetLog.formatVersion",
        {"no named source": _no_named_source},
        "conf_offset_log, conf_offset_log_back",
    ),
    Proof(
        "not a Spark setting: the plan and the functions show its effect where the job's code reads it",
        lambda key: not key.startswith(("spark.sql.", "spark.hadoop.", "spark.driver.")),
        {
            "no extension": _no_extension,
            "no static input": _no_static_input,
            "no Python below state": _no_python_below,
            "Spark's own sources": _sparks_own_sources,
        },
    ),
)
"""All proofs. tests/compatibility/test_session_settings.py violates each of their conditions in turn."""


def _concerns_format(key: str, word: str) -> bool:
    return key.startswith((f"{SQL}{word}.", f"{SQL}{word}Generator.", f"{SQL}legacy.{word}.", f"spark.hadoop.{word}."))


def _plans(manifest: Manifest) -> str:
    """All plans in a manifest, in lower case."""
    return "\n".join(
        [manifest.plan, *(text for operator in manifest.operators for text in (operator.upstream, *operator.shape))]
    ).lower()


def changed_settings(old: Manifest, new: Manifest, kind: ConfRole) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield key, deployed value and candidate value of each setting of role ``kind`` that Spark would read
    differently.
    """
    had, has = _as_read(old), _as_read(new)
    for key in sorted(had.keys() | has.keys()):
        before, after = had.get(key), has.get(key)
        if before != after and role(key) is kind:
            yield key, before, after


def _as_read(manifest: Manifest) -> dict[str, str]:
    """Return the settings by current key, in Spark's spelling. Older releases recorded them as written."""
    values = {current_key(key): value.strip() for key, value in manifest.confs.items()}
    return {key: value.lower() if value.lower() in ("true", "false") else value for key, value in values.items()}
