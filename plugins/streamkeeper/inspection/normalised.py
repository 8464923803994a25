"""A plan as text in a form that two builds of the same query share, with the digest of its whole structure.

The text is for people: an id inside a string literal looks like an attribute's id, and ``3`` is an int or a long. A
plan is the same only if the structure is.
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
    """One text from a plan's ``toString`` and the digest of its walked tree."""
    literals = sorted({literal for literal in texts(tree) if _ID.search(literal)}, key=len, reverse=True)
    return f"{normalised_text(text, literals).rstrip()}\nstructure {structure_digest(tree)}"


def normalised_text(text: str, literals: Iterable[str] = ()) -> str:
    """A plan's ``toString`` with ids renumbered, and with locations, limits and random seeds taken out.

    ``literals``: the job's own strings and names that look as if they held an attribute's id.
    """
    for word in literals:
        # An attribute's id follows its name; a literal follows a space or a bracket.
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
    """Every batch gets new ones (IncrementalExecution), so that those in a plan never count."""
    return _SEED.sub(r"\1(seed)", text)
