"""Rules about added and removed queries: a checkpoint belongs to a query's name; a renamed query starts empty. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamkeeper.compatibility.shown import change
from streamkeeper.model.finding import Finding, Severity
from streamkeeper.model.manifest import SINK_FUNCTION, UNREADABLE, Manifest, Source
from streamkeeper.model.sink_capabilities import capabilities_of

_SHORTEST_NAME = 3
"""Minimum number of characters of a shared text that counts as a similarity."""
Queries = Mapping[str, Manifest]


def added(new: Manifest, deployed: Queries, candidate: Queries) -> Iterator[Finding]:
    """A new query has a new checkpoint; it must not take over an output that another query has written."""
    owners = _owners(new, deployed)
    renamed = [name for name, old in deployed.items() if name not in candidate and may_be_renamed(old, new)]
    if owners:
        yield Finding(
            rule="output-changes-hands",
            severity=Severity.BREAKING,
            where=f"sink {new.sink.output}",
            evidence=change(owners[0], new.query, "query that writes the output"),
            hint="keep the query's deployed name, or write to a new output: a new query reads its sources again",
        )
    elif renamed:
        yield Finding(
            rule="query-may-be-renamed",
            severity=Severity.OPAQUE,
            where=f"query {new.query}",
            evidence=change(renamed[0], new.query, "query name"),
            hint=f"to resume its checkpoint keep the deployed name {renamed[0]}; approve if it is another query",
        )
    else:
        yield Finding(
            rule="query-added",
            severity=Severity.NOTE,
            where=f"query {new.query}",
            evidence=f"a new query that writes to `{new.sink.output}`",
        )


def removed(name: str, old: Manifest, candidate: Queries) -> Iterator[Finding]:
    """A removed query loses no data: its checkpoint and its output stay."""
    heirs = _owners(old, candidate)
    yield Finding(
        rule="query-removed",
        severity=Severity.BREAKING if heirs else Severity.NOTE,
        where=f"query {name}",
        evidence=f"`{old.sink.output}` would be written by query {heirs[0]}" if heirs else "the candidate lacks it",
        hint=f"keep the query's deployed name, or give query {heirs[0]} its own output" if heirs else "",
    )


def may_be_renamed(old: Manifest, new: Manifest) -> bool:
    """Whether an added query may be a removed one under a new name, with the same output.

    Two outputs with named places are compared by these. The place of a function is not known: two functions require an
    approval if anything is similar; a function and a named place if both queries read and store the same, or if the
    function names that place.
    """
    named = [manifest for manifest in (old, new) if capabilities_of(manifest.sink.kind).names_place]
    if len(named) == 2:
        return False
    if not named:
        return _alike_functions(old, new) or _reads_alike(old, new) or _keeps_alike(old, new)
    (place,) = named
    function = new if place is old else old
    reads = _reads_alike(old, new) and [each.kind for each in old.operators] == [each.kind for each in new.operators]
    return reads or _names(function, place)


def _owners(manifest: Manifest, others: Queries) -> list[str]:
    """The queries that write to the same place; none for a function, whose place is not known."""
    if not capabilities_of(manifest.sink.kind).names_place:
        return []
    return [name for name, other in others.items() if other.sink.same_place(manifest.sink)]


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
    """Kind and place of a source, without brokers: a topic on other brokers may be the same one."""
    place = source.location.rpartition("@")[0] if source.kind == "kafka" else source.location
    return source.kind, place or source.location


def _keeps_alike(old: Manifest, new: Manifest) -> bool:
    """Whether both keep state with operators of the same kinds."""
    kinds = [[operator.kind for operator in manifest.operators] for manifest in (old, new)]
    return bool(kinds[0]) and kinds[0] == kinds[1]


def _names(function: Manifest, place: Manifest) -> bool:
    """Whether a function's code contains the table or directory of another sink."""
    output = place.sink.output
    last = output.rpartition("#")[2] if "#" in output else output
    return any(last in name for name in function.sink_names or ())
