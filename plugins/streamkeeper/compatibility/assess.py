"""The verdict on a change: every rule, over every query, from two manifests. Pure.

What no rule explains is never a RESUME: a net below the rules catches any difference that they left without a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from streamkeeper.compatibility import operators, python_code, settings, sinks, sources, versions
from streamkeeper.compatibility.rule import Rule, change
from streamkeeper.model.finding import Assessment, Finding, QueryAssessment, Severity, Verdict, verdict_of
from streamkeeper.model.manifest import Manifest

RULES: tuple[Rule, ...] = (
    *sources.RULES,
    *operators.RULES,
    *python_code.RULES,
    *sinks.RULES,
    *settings.RULES,
    *versions.RULES,
)


def assess(deployed: Mapping[str, Manifest] | None, candidate: Mapping[str, Manifest]) -> Assessment:
    """Judge ``candidate`` against what is deployed (None: nothing is), query by query, by name."""
    before = deployed or {}
    queries: dict[str, QueryAssessment] = {}
    for name in sorted(before.keys() | candidate.keys()):
        queries[name] = _judged(_findings(name, before, candidate) if deployed is not None else ())
    verdict = max((each.verdict for each in queries.values()), default=Verdict.RESUME)
    return Assessment(verdict=verdict, queries=queries)


def find_changes(old: Manifest, new: Manifest) -> tuple[Finding, ...]:
    """Every finding about one query, in the order of ``RULES``."""
    return (*_ruled(old, new), *_unexplained(old, new))


def _ruled(old: Manifest, new: Manifest) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(old, new)


def _judged(findings: Iterable[Finding]) -> QueryAssessment:
    kept = tuple(findings)
    return QueryAssessment(verdict=verdict_of(kept), findings=kept)


def _findings(name: str, before: Mapping[str, Manifest], after: Mapping[str, Manifest]) -> Iterable[Finding]:
    old, new = before.get(name), after.get(name)
    if old is not None and new is not None:
        return find_changes(old, new)
    if new is not None:
        return _added(new, before)
    return _removed(name, before[name], after)


def _added(new: Manifest, deployed: Mapping[str, Manifest]) -> Iterator[Finding]:
    """A new query owns a new checkpoint; it may not take over an output that another checkpoint has been filling."""
    owners = [name for name, each in deployed.items() if each.sink.output == new.sink.output]
    if owners:
        yield Finding(
            rule="output-changes-hands",
            severity=Severity.BREAKING,
            where=f"sink {new.sink.output}",
            evidence=change(f"query {owners[0]}", f"query {new.query}"),
            hint="keep the query's deployed name, or write to a new output: a new query reads its sources again",
        )
    else:
        yield Finding(
            rule="query-added",
            severity=Severity.NOTE,
            where=f"query {new.query}",
            evidence=change("", new.sink.output),
            hint="starts with a new checkpoint version, at the beginning of its sources",
        )


def _removed(name: str, old: Manifest, candidate: Mapping[str, Manifest]) -> Iterator[Finding]:
    """Nothing is lost: its checkpoint stays where it is, and so does its output."""
    heirs = [query for query, each in candidate.items() if each.sink.output == old.sink.output]
    yield Finding(
        rule="query-removed",
        severity=Severity.BREAKING if heirs else Severity.NOTE,
        where=f"query {name}",
        evidence=change(old.sink.output, f"query {heirs[0]}" if heirs else ""),
        hint="its checkpoint is kept; its output is not written any more",
    )


def _unexplained(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Each field that differs, if its difference alone would pass every rule without a finding."""
    for field in old.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if before != after and not any(_ruled(old, msgspec.structs.replace(old, **{field: after}))):
            yield Finding(
                rule="unexplained-difference",
                severity=Severity.BREAKING,
                where=field,
                evidence=change(_text(before), _text(after)),
                hint="switch this query to a new checkpoint version, or take the change back",
            )


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
