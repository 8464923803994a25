"""Rows that differ in their order alone, and functions that differ in the names of local variables, are the same. Pure.

Both manifests must say what remains without it (``Manifest.essentials``), which only newer versions record.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streamkeeper.compatibility.rule import note
from streamkeeper.model.finding import Finding
from streamkeeper.model.manifest import LOCAL_NAMES, Manifest


def essentially_alike(old: Manifest, new: Manifest) -> Manifest:
    """The old manifest with the new digest of what is the same in all that counts."""
    same = {name: new.functions[name] for name in _differing(old, new)}
    return msgspec.structs.replace(old, functions=old.functions | same) if same else old


def essential_notes(old: Manifest, new: Manifest) -> Iterator[Finding]:
    """What differs there."""
    for name in _differing(old, new):
        if new.essentials[name].startswith(LOCAL_NAMES):
            function = name.partition(" ")[2]
            yield note("local-variables-renamed", f"Python function {function}", "only names of local variables differ")
        else:
            yield note("rows-reordered", "rows created in the job's code", "the same rows in another order")


def _differing(old: Manifest, new: Manifest) -> list[str]:
    """Names that differ as they are, and whose essentials are the same."""
    return [
        name
        for name, essential in new.essentials.items()
        if old.essentials.get(name) == essential
        and name in old.functions.keys() & new.functions.keys()
        and old.functions[name] != new.functions[name]
    ]
