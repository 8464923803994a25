"""Replaces the paths of the bundle's static files in a plan by their names in the bundle and digests of their content.

The plan then does not depend on the directory to which the release was unpacked.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamkeeper.inspection.plan_tree import Node, Tagged, values_in
from streamkeeper.model.manifests.manifest import BUNDLE, CONTENT

_RELATION = "HadoopFsRelation"
_TELLS_PLACES = frozenset({"InputFileBlockLength", "InputFileBlockStart", "InputFileName"})
_METADATA = "_metadata"
_BY_TIME = frozenset({"modifiedafter", "modifiedbefore"})
_MOST_BYTES = 1 << 30
_CHUNK = 1 << 20


def name_bundled_files(plan: Node, root: Path | None) -> bool:
    """In ``plan``, replace the paths of static files below ``root`` by values that do not depend on ``root``. Return
    whether any path was replaced.

    No path is replaced if the query uses paths or times of files, because files in another directory would then give
    other rows.
    """
    if root is None:
        return False
    found = [value for value in values_in(plan) if isinstance(value, Node)]
    relations = [node for node in found if node.name == _RELATION]
    if not relations or any(map(_sees_places, found)):
        return False
    places = sorted({str(root), str(root.resolve())}, key=len, reverse=True)
    return any([_name(node, places) for node in relations])


def _sees_places(node: Node) -> bool:
    named = node.name == "AttributeReference" and str(node.fields.get("name")) == _METADATA
    return named or node.name in _TELLS_PLACES


def _name(relation: Node, places: list[str]) -> bool:
    location, options = relation.fields["location"], relation.fields["options"]
    options_found = options.found if isinstance(options, Tagged) else []
    if not isinstance(location, list) or any(str(key).lower() in _BY_TIME for key, _ in options_found):
        return False
    named = [_named(root, places) for root in location]
    if None in named or not named:
        return False
    relation.fields["location"] = named
    relation.fields["options"] = Tagged("m", [[key, _without(value, places)] for key, value in options_found])
    return True


def _named(found: Any, places: list[str]) -> Tagged | None:
    """Return the replacement of a relation's root path; None if the path is outside of the bundle or cannot be read."""
    if not isinstance(found, Tagged) or not isinstance(found.found, str):
        return None
    path = found.found.removeprefix("file:")
    if not any(path.startswith(f"{place}/") for place in places) or not (content := _content(Path(path))):
        return None
    return Tagged(found.tag, f"file:{_without(path, places)}{CONTENT}{content}")


def _without(text: Any, places: list[str]) -> Any:
    for place in places:
        if isinstance(text, str) and place in text:
            return text.replace(place, BUNDLE)
    return text


def _content(path: Path) -> str:
    """Return a digest of a file, or of all files below a directory with their names; empty if there are too
    many files.
    """
    digest = hashlib.sha256()
    read = 0
    try:
        for file in _files(path):
            digest.update(f"{file.relative_to(path)}\n{file.stat().st_size}\n".encode())
            read += file.stat().st_size
            if read > _MOST_BYTES:
                return ""
            with file.open("rb") as data:
                while chunk := data.read(_CHUNK):
                    digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()[:32]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, folders, files in os.walk(path):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(files))
