"""Writes a plan as a text that is equal for two builds of the same query, with a digest of the plan's structure.

People read the text, which is ambiguous: an id inside a string literal looks like the id of an attribute, and ``3`` may
be an int or a long. Only the digests of their structures decide whether two plans are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamkeeper.inspection.plan_tree import Node, structure_digest, texts, unnumbered

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ID = re.compile(r"#(\d+)")
_NUMBER_SIGN = "\N{FULLWIDTH NUMBER SIGN}"
_IDENTITY = re.compile(r"([\w.$]+)@[0-9a-f]{5,8}\b")
_V1_SOURCE = re.compile(r"(StreamingRelation )(\w+)\[.*\](, \[)")
_V2_SOURCE = re.compile(r"(StreamingRelationV2) \S+, (\S+), \S+, \[.*?\], \[")
_LAMBDA = re.compile(r"lambda (\w+?)_\d+#")
_SEED = re.compile(r"\b(rand|randn|uniform|randstr|uuid|shuffle)\(([^()]*?,\s*)?(Some\()?-?\d+L?\)?\)")


def normalised(text: str, tree: Node) -> str:
    """Return the normal form of ``text``, a plan's ``toString``, followed by the digest of the walked plan ``tree``."""
    literals = sorted({literal for literal in texts(tree) if _ID.search(literal)}, key=len, reverse=True)
    return f"{normalised_text(text, literals).rstrip()}\nstructure {structure_digest(tree)}"


def normalised_text(text: str, literals: Iterable[str] = ()) -> str:
    """Return a plan's ``toString`` with new numbers for ids, and without locations, limits and random seeds.

    ``literals``: the job's own strings and names that contain a text like an attribute's id, such as ``#1``. These
    texts keep their numbers.
    """
    for word in literals:
        # The id of an attribute follows its name. A literal follows a space or a bracket.
        literal = re.compile(rf"(?<![\w`)\]]){re.escape(word)}(?!\d)")
        text = literal.sub(word.replace("#", _NUMBER_SIGN).replace("\\", r"\\"), text)
    text = unnumbered(_UUID.sub("UUID", text))
    text = _V1_SOURCE.sub(r"\1\2\3", text)
    text = _V2_SOURCE.sub(r"\1 \2, [", text)
    text = _IDENTITY.sub(r"\1", text)
    text = _LAMBDA.sub(r"lambda \1#", text)
    text = without_seeds(text)
    numbers: dict[str, int] = {}
    text = _ID.sub(lambda found: f"#{numbers.setdefault(found[1], len(numbers))}", text)
    return text.replace(_NUMBER_SIGN, "#")


def without_seeds(text: str) -> str:
    """Return the text without random seeds. They do not matter: every batch gets new seeds (IncrementalExecution)."""
    return _SEED.sub(r"\1(seed)", text)
