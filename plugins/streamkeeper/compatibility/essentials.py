"""Treats rows that differ only in order, and functions that are rewritten but do the same, as equal. Pure.

Both manifests must contain the normal form (``Manifest.essentials``, ``Manifest.rewritten``), which only newer versions
record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from streamkeeper.compatibility.code_changes import NO_PART, code_change
from streamkeeper.compatibility.function_sinks import sink_function_called
from streamkeeper.compatibility.python_code import function_called
from streamkeeper.compatibility.rule import note
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import LOCAL_NAMES, SINK_FUNCTION, UNREADABLE, Manifest


def essentially_alike(old: Manifest, new: Manifest) -> Manifest:
    """Return ``old``, but with the digest of ``new`` for each function whose normal form is equal in both manifests, so
    that a comparison finds no change in that function. The same applies to rows that the job creates.
    """
    same = {name: new.functions[name] for name in (*_differing(old, new), *_rewritten(old, new))}
    return msgspec.structs.replace(old, functions=old.functions | same) if same else old


def essential_notes(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """Yield a note for each part whose digest differs although its normal form is equal in both manifests."""
    for name in _differing(old, new):
        if new.essentials[name].startswith(LOCAL_NAMES):
            changed = code_change(name, old, new)
            detail = f": {changed.evidence}" if changed.evidence != NO_PART else ""
            found = note(
                "local-variables-renamed", function_called(name, new), f"only names of local variables differ{detail}"
            )
            yield msgspec.structs.replace(found, line=changed.line)
        else:
            yield note("rows-reordered", "rows created in the job's code", "the same rows in another order")
    for name in _rewritten(old, new):
        changed = code_change(name, old, new)
        where = sink_function_called(name) if name.startswith(SINK_FUNCTION) else function_called(name, new)
        yield msgspec.structs.replace(note("code-rewritten-equally", where, changed.evidence), line=changed.line)


def _differing(old: Manifest, new: Manifest) -> list[str]:
    """Return the names of functions and rows whose digests differ although their normal forms are equal."""
    return _same_without(old.essentials, new.essentials, old, new)


def _rewritten(old: Manifest, new: Manifest) -> list[str]:
    """Return the names of functions in which more than the names of local variables was rewritten, but which do the
    same.
    """
    renamed = _differing(old, new)
    return [name for name in _same_without(old.rewritten, new.rewritten, old, new) if name not in renamed]


def _same_without(before: Mapping[str, str], after: Mapping[str, str], old: Manifest, new: Manifest) -> list[str]:
    return [
        name
        for name, digest in after.items()
        if before.get(name) == digest
        and name in old.functions.keys() & new.functions.keys()
        and old.functions[name] != new.functions[name]
        and not any(each.functions[name].startswith(UNREADABLE) for each in (old, new))
    ]
