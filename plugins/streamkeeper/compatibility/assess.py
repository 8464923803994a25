"""Computes the verdict on a change: applies every rule to every query, from two manifests. Pure.

A difference that no rule explains never leads to a RESUME: the last check reports every difference left without a
finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from streamkeeper.compatibility import (
    function_sinks,
    output_keys,
    output_mode,
    output_values,
    python_code,
    reaching_state,
    session_settings,
    sinks,
    sources,
    state_keys,
    state_values,
    stateful_operators,
    versions,
    watermarks,
)
from streamkeeper.compatibility.added_queries import added, removed
from streamkeeper.compatibility.among_others import among_others
from streamkeeper.compatibility.effects import with_effects
from streamkeeper.compatibility.essentials import essential_notes, essentially_alike
from streamkeeper.compatibility.observations import not_looked
from streamkeeper.compatibility.older_manifests import in_one_format
from streamkeeper.compatibility.rehearsals import explained_by, with_cause
from streamkeeper.compatibility.rule import NEW_CHECKPOINT, Rule
from streamkeeper.compatibility.shown import parts_change
from streamkeeper.compatibility.way_out import priced, switch_of
from streamkeeper.model.manifests.concern import Concern, concern_of
from streamkeeper.model.manifests.evidence import Evidence
from streamkeeper.model.manifests.finding import (
    Assessment,
    Finding,
    QueryAssessment,
    Severity,
    Switch,
    Verdict,
    verdict_of,
)
from streamkeeper.model.manifests.manifest import SINK_FUNCTION, Manifest

RULES: tuple[Rule, ...] = (
    *sources.RULES,
    *stateful_operators.RULES,
    *state_keys.RULES,
    *state_values.RULES,
    *output_values.RULES,
    *reaching_state.RULES,
    *watermarks.RULES,
    *python_code.RULES,
    *function_sinks.RULES,
    *output_mode.RULES,
    *sinks.RULES,
    *output_keys.RULES,
    *session_settings.RULES,
    *versions.RULES,
)


_DERIVED = frozenset(
    {"bundle", "carried", "columns", "context", "digests", "essentials", "format", "output_rows", "output_shape"}
    | {"parts", "reached", "rewritten", "sink_columns", "sink_names", "sink_reads", "sink_routing", "written"}
)
"""Manifest fields that follow from others, or that record only their reliability or their place in the source."""


def assess(
    deployed: Mapping[str, Manifest] | None,
    candidate: Mapping[str, Manifest],
    observed: Mapping[str, Iterable[Finding]] | None = None,
) -> Assessment:
    """Return the verdict on replacing the deployed job by ``candidate``, with the findings about each query. Queries of
    the same name are compared.

    ``deployed``: None if no job is deployed. ``observed``: findings that do not come from the manifests, but from the
    checkpoint, the rehearsal, sources and sinks.
    """
    before, seen = deployed or {}, observed or {}
    queries: dict[str, QueryAssessment] = {}
    for name in sorted(before.keys() | candidate.keys() | seen.keys()):
        known = name in before or name in candidate
        ruled = tuple(_findings(name, before, candidate)) if deployed is not None and known else ()
        found = (*ruled, *(with_cause(ruled, explained_by(ruled, each)) for each in seen.get(name, ())))
        if name in before and name in candidate:
            pair = before[name], candidate[name]
            queries[name] = _judged(priced(found, *pair), switch_of(found, *pair))
        else:
            # A new query that takes over an output has no checkpoint from which it could be switched.
            queries[name] = _judged(found, Switch.IMPOSSIBLE if name in candidate else Switch.POSSIBLE)
    verdict = max((query.verdict for query in queries.values()), default=Verdict.RESUME)
    return Assessment(verdict=verdict, queries=queries)


def assess_evidence(evidence: Evidence) -> Assessment:
    """Return the verdict on the evidence. A missing check of a query requires approval, unless a finding about the
    query is fatal anyway.
    """
    of = evidence.queries
    observed: dict[str, tuple[Finding, ...]] = {}
    for name, query in of.items():
        missing = () if query.is_fatal else tuple(not_looked(look.value, why) for look, why in query.not_looked.items())
        observed[name] = (*query.findings, *missing)
    deployed = {name: query.deployed for name, query in of.items() if query.deployed is not None}
    candidate = {name: query.candidate for name, query in of.items() if query.candidate is not None}
    return assess(None if evidence.first else deployed, candidate, observed)


def accept_output_losses(evidence: Evidence) -> tuple[Evidence, dict[str, int]]:
    """Return the evidence with every finding about a lost output reduced to a note. Also return a mapping from each
    query with such a finding to its newest committed batch; the output may lack batches up to that batch.

    A query without a committed batch is left unchanged and is not in the mapping.
    """
    queries = dict(evidence.queries)
    accepted: dict[str, int] = {}
    for name, query in evidence.queries.items():
        found = {look: tuple(map(_accepted, findings)) for look, findings in query.found.items()}
        if found != query.found and query.batch is not None:
            queries[name] = msgspec.structs.replace(query, found=found)
            accepted[name] = query.batch
    return msgspec.structs.replace(evidence, queries=queries), accepted


def _accepted(finding: Finding) -> Finding:
    lost = concern_of(finding) is Concern.OUTPUT_LOST
    return msgspec.structs.replace(finding, severity=Severity.NOTE, effect="") if lost else finding


def find_changes(old: Manifest, new: Manifest) -> tuple[Finding, ...]:
    """Return all findings about one query, in the order of ``RULES``, without duplicates."""
    before, after = in_one_format(old, new)
    notes = essential_notes(before, after)
    before = essentially_alike(before, after)
    found = (*notes, *_ruled(before, after), *_unexplained(before, after))
    return tuple(dict.fromkeys(found))


def _ruled(old: Manifest, new: Manifest) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(old, new)


def _judged(findings: Iterable[Finding], switch: Switch = Switch.POSSIBLE) -> QueryAssessment:
    kept = among_others(dict.fromkeys(with_effects(findings)))
    verdict = verdict_of(kept)
    return QueryAssessment(
        verdict=verdict, findings=kept, switch=switch if verdict is Verdict.SWITCH else Switch.POSSIBLE
    )


def _findings(name: str, before: Mapping[str, Manifest], after: Mapping[str, Manifest]) -> Iterable[Finding]:
    old, new = before.get(name), after.get(name)
    if old is not None and new is not None:
        return find_changes(old, new)
    if new is not None:
        return added(new, before, after)
    return removed(name, before, after)


def _compared(field: str, manifest: Manifest, same_sink: bool) -> object:
    """Return a field's value to compare. If the two sinks are of different kinds, omit the functions of the sink,
    because the rule about another kind of sink explains them.
    """
    if field != "functions" or same_sink:
        return getattr(manifest, field)
    return {name: digest for name, digest in manifest.functions.items() if not name.startswith(SINK_FUNCTION)}


def _unexplained(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Yield a finding for each field that differs and whose difference, taken by itself, no rule reports."""
    for field in old.__struct_fields__:
        if field in _DERIVED:
            continue
        before, after = (_compared(field, each, old.sink.kind == new.sink.kind) for each in (old, new))
        if before != after and not any(_ruled(old, msgspec.structs.replace(old, **{field: after}))):
            yield Finding(
                rule="unexplained-difference",
                severity=Severity.BREAKING,
                where=field,
                evidence=parts_change(msgspec.to_builtins(before), msgspec.to_builtins(after)),
                hint=NEW_CHECKPOINT,
            )
