"""A plan in a form that two builds of the same query share: readable text, and a digest of its whole structure.

The text alone would hide meaning (an id inside a string literal looks like an attribute's id; ``3`` is an int or a
long), the structure alone hides what Spark's JSON leaves out (``try_cast``); a plan is the same only if both are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from streamkeeper.inspection import spark_classes

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = re.compile(r"#(\d+)")
_NUMBER_SIGN = "\N{FULLWIDTH NUMBER SIGN}"
_IDENTITY = re.compile(r"([\w.$]+)@[0-9a-f]{5,8}\b")
_V1_SOURCE = re.compile(r"(StreamingRelation )(\w+)\[.*\](, \[)")
_V2_SOURCE = re.compile(r"(StreamingRelationV2) \S+, (\S+), \S+, \[.*?\], \[")
_LAMBDA = re.compile(r"lambda (\w+?)_\d+#")
_SEED = re.compile(r"\b(rand|randn|uniform|randstr|uuid|shuffle)\(([^()]*?,\s*)?(Some\()?-?\d+L?\)?\)")


def normalised(text: str, structure: str, notes: Iterable[str] = ()) -> str:
    """One text from a plan's ``toString``, its ``toJSON`` and notes about what neither shows."""
    tree = json.loads(structure)
    literals = sorted({each for each in _strings(tree) if _ID.search(each)}, key=len, reverse=True)
    lines = [normalised_text(text, literals).rstrip(), *notes, f"structure {_digest(tree)}"]
    return "\n".join(lines)


def normalised_text(text: str, literals: Iterable[str] = ()) -> str:
    """A plan's ``toString`` with ids renumbered, and with locations, limits and random seeds taken out.

    ``literals``: the job's own strings and names that look as if they held an attribute's id.
    """
    for each in literals:
        # An attribute's id follows its name; a literal follows a space or a bracket.
        literal = re.compile(rf"(?<![\w`)\]]){re.escape(each)}(?!\d)")
        text = literal.sub(each.replace("#", _NUMBER_SIGN).replace("\\", r"\\"), text)
    text = _UUID.sub("UUID", text)
    text = _V1_SOURCE.sub(r"\1\2\3", text)
    text = _V2_SOURCE.sub(r"\1 \2, [", text)
    text = _IDENTITY.sub(r"\1", text)
    text = _LAMBDA.sub(r"lambda \1#", text)
    text = _SEED.sub(r"\1(seed)", text)
    numbers: dict[str, int] = {}
    text = _ID.sub(lambda found: f"#{numbers.setdefault(found[1], len(numbers))}", text)
    return text.replace(_NUMBER_SIGN, "#")


def structure_digest(structure: str) -> str:
    """sha256 of a plan's ``toJSON``, freed of what differs between two builds."""
    return _digest(json.loads(structure))


def _digest(tree: Any) -> str:
    canonical = json.dumps(_Stable().value(tree), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _strings(tree: Any) -> Iterator[str]:
    match tree:
        case str():
            yield tree
        case dict():
            for value in tree.values():
                yield from _strings(value)
        case list():
            for value in tree:
                yield from _strings(value)


class _Stable:
    """Rewrites decoded JSON; attribute ids are renumbered in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def value(self, found: Any) -> Any:
        match found:
            case {"product-class": spark_classes.EXPR_ID, "id": number}:
                return {"expression": self._numbers.setdefault(number, len(self._numbers))}
            case dict():
                return self._node(found)
            case list():
                return self._siblings(found)
            case _:
                return found

    def _node(self, found: dict[str, Any]) -> dict[str, Any]:
        name = _simple(found)
        kept = {key: self.value(value) for key, value in found.items() if key not in spark_classes.UNSTABLE_FIELDS}
        if name in spark_classes.STREAMING_RELATIONS:
            kept["sourceName"] = str(found.get("sourceName", "")).partition("[")[0]
        if name == spark_classes.LAMBDA_VARIABLE:
            kept["name"] = "lambda"
        return kept

    def _siblings(self, found: list[Any]) -> list[Any]:
        """A tree is a list in pre-order, so that a seeded expression's seed is the literal that follows it."""
        kept, seed_next = [], False
        for each in found:
            node = self.value(each)
            if seed_next and _simple(each) == "Literal":
                node = {**node, "value": "seed"}
            kept.append(node)
            seed_next = _simple(each) in spark_classes.SEEDED
        return kept


def _simple(node: object) -> str:
    return str(node.get("class", "")).rpartition(".")[2] if isinstance(node, dict) else ""
