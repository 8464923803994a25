"""Rules about added and removed queries: a checkpoint belongs to a query's name; a renamed query starts empty. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from streamkeeper.compatibility.shown import change
from streamkeeper.model.manifests.finding import Finding, Severity
from streamkeeper.model.manifests.manifest import SINK_FUNCTION, UNREADABLE, Manifest, Source
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.sources.known_sources import place_of

_SHORTEST_NAME = 3
"""Minimum number of characters of a shared text that counts as a similarity."""
Queries = Mapping[str, Manifest]


def added(new: Manifest, deployed: Queries, candidate: Queries) -> Iterator[Finding]:
    """Report an added query. The query gets a new checkpoint, and must not take over an output that another query has
    written.
    """
    owners = _owners(new, deployed, candidate)
    renamed = [name for name, old in deployed.items() if name not in candidate and may_be_renamed(old, new)]
    if owners:
        hint = "keep the deployed output of each query, or write to a new output"
        if owners[0] not in candidate:
            hint = (
                f"if this is query {owners[0]} under a new name, keep the deployed name: the query then resumes its"
                " checkpoint. If this is a different query, write to a new output"
            )
        yield Finding(
            rule="output-changes-hands",
            severity=Severity.BREAKING,
            where=f"sink {new.sink.output}",
            evidence=change(owners[0], new.query, "query that writes the output"),
            hint=hint,
            effect=f"query {new.query} would begin with a new checkpoint, read its sources from their beginning and "
            f"write to the output that query {owners[0]} has filled: rows would be duplicated",
        )
    elif renamed:
        (name, *_) = renamed
        yield Finding(
            rule="query-may-be-renamed",
            severity=Severity.OPAQUE,
            where=f"query {new.query}",
            evidence=f"{change(name, new.query, 'query name')}; both {_each(likeness(deployed[name], new))}",
            hint=f"if this is query {name} under a new name, keep the deployed name {name}: the query then resumes its "
            "checkpoint. If this is a different query, approve",
            effect=f"if this is query {name} under a new name, it starts with empty state and reads its sources from "
            f"their beginning: rows that {name} has written would be written a second time",
        )
    else:
        yield Finding(
            rule="query-added",
            severity=Severity.NOTE,
            where=f"query {new.query}",
            evidence=f"a new query that writes to `{new.sink.output}`",
        )


def removed(name: str, deployed: Queries, candidate: Queries) -> Iterator[Finding]:
    """Report a removed query. Its checkpoint and its output stay, so no data is lost."""
    old = deployed[name]
    heirs = _owners(old, candidate, deployed)
    alike = [new for new in candidate if new not in deployed and may_be_renamed(old, candidate[new])]
    reason = f"the candidate has no query `{name}`"
    if heirs:
        yield Finding(
            rule="query-removed",
            severity=Severity.BREAKING,
            where=f"query {name}",
            evidence=f"{reason}, but a query `{heirs[0]}` that writes to the same output, `{old.sink.output}`",
            hint=f"if query {heirs[0]} is query {name} under a new name, keep the deployed name {name}. If it is a "
            f"different query, give query {heirs[0]} its own output",
            effect=f"query {name} would stop, and query {heirs[0]} would write to the output of {name}. If {heirs[0]} "
            "is new, it would read its sources from their beginning, and rows would be duplicated",
        )
    elif alike:
        yield Finding(
            rule="query-removed",
            severity=Severity.NOTE,
            where=f"query {name}",
            evidence=f"{reason}, but a new query `{alike[0]}` that resembles `{name}`: both "
            f"{_each(likeness(old, candidate[alike[0]]))}",
            hint=f"if query {alike[0]} is query {name} under a new name, keep the name {name}. If it is a different "
            "query, no action is needed",
            effect=f"query {name} would stop; its checkpoint and its output stay as they are, and query {alike[0]} "
            "would not use that checkpoint",
        )
    else:
        yield Finding(rule="query-removed", severity=Severity.NOTE, where=f"query {name}", evidence=reason)


def may_be_renamed(old: Manifest, new: Manifest) -> bool:
    """Whether an added query may be a removed query under a new name, judged by ``likeness``.

    False if the places of both outputs are known, because the caller compares these places. The place of a sink
    function's output is not known.
    """
    return bool(likeness(old, new))


def likeness(old: Manifest, new: Manifest) -> tuple[str, ...]:
    """Return the reasons why an added query may be a removed query under a new name; empty if there is none.

    Each reason is a phrase such as "read the same source", which continues a sentence about both queries.

    - If both queries write with a sink function, each of these is a reason: the same source, the same kinds of state,
      functions that share a name, code or text.
    - If only one query writes with a sink function, the reasons are that both queries read the same source and keep the
      same kinds of state, or that the function names the place of the other query's output.
    - If neither writes with a sink function, there is no reason: the places of the outputs are known and are compared
      instead.
    """
    named = [manifest for manifest in (old, new) if capabilities_of(manifest.sink.kind).names_place]
    if len(named) == 2:
        return ()
    reads, keeps = _reads_alike(old, new), _keeps_alike(old, new)
    shared = (*(["read the same source"] if reads else []), *(["keep the same kind of state"] if keeps else []))
    if not named:
        return (
            *(["have sink functions that share a name, code or text"] if _alike_functions(old, new) else []),
            *shared,
        )
    (place,) = named
    function = new if place is old else old
    same_kinds = [each.kind for each in old.operators] == [each.kind for each in new.operators]
    names = ("name the same output",) if _names(function, place) else ()
    return (*names, *(shared if names or (reads and same_kinds) else ()))


def _each(clauses: Sequence[str]) -> str:
    """Return the clauses as one text: a list with "and" before the last clause."""
    return " and ".join(filter(None, (", ".join(clauses[:-1]), *clauses[-1:])))


def _owners(manifest: Manifest, others: Queries, beside: Queries) -> list[str]:
    """Return the queries that write to the same place; none for a sink function, whose place is not known.

    ``beside``: the queries that may share the place with this one. They count only if the output accepts one writer.
    """
    can = capabilities_of(manifest.sink.kind)
    if not can.names_place:
        return []
    shared = beside if can.delivers else ()
    return [name for name, other in others.items() if other.sink.same_place(manifest.sink) and name not in shared]


def _alike_functions(old: Manifest, new: Manifest) -> bool:
    """Whether two functions have the same name, share code, or contain the same text."""
    names = [{name for name in manifest.sink_names or () if _says_something(name)} for manifest in (old, new)]
    codes = [_codes(manifest) for manifest in (old, new)]
    return old.sink.same_place(new.sink) or bool(names[0] & names[1]) or bool(codes[0] & codes[1])


def _says_something(name: str) -> bool:
    return sum(char.isalnum() for char in name) >= _SHORTEST_NAME


def _codes(manifest: Manifest) -> set[str]:
    functions = {digest for name, digest in manifest.functions.items() if name.startswith(SINK_FUNCTION)}
    return {digest for digest in functions | {*(manifest.sink_routing or {}).values()} if _is_readable(digest)}


def _is_readable(digest: str) -> bool:
    return not digest.startswith(UNREADABLE)


def _reads_alike(old: Manifest, new: Manifest) -> bool:
    return bool({_read(source) for source in old.sources} & {_read(source) for source in new.sources})


def _read(source: Source) -> tuple[str, str]:
    """Return the kind and the place of a source, without its brokers, because a topic on other brokers may be the same
    topic.
    """
    return source.kind, place_of(source) or source.location


def _keeps_alike(old: Manifest, new: Manifest) -> bool:
    """Whether both queries keep state with operators of the same kinds."""
    kinds = [[operator.kind for operator in manifest.operators] for manifest in (old, new)]
    return bool(kinds[0]) and kinds[0] == kinds[1]


def _names(function: Manifest, place: Manifest) -> bool:
    """Whether a function's code contains the table or directory of another sink."""
    output = place.sink.output
    last = output.rpartition("#")[2] if "#" in output else output
    return any(last in name for name in function.sink_names or ())
