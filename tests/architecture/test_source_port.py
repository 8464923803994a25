"""A kind of source is named only in its own module; all other code reads the declarations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamkeeper.sources.known_sources import REPLAYED

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "streamkeeper"
NAMES = {name for kind in REPLAYED for name in (kind.name, *kind.formats)}
OF_SOURCES_ALONE = {kind.name for kind in REPLAYED} - {"file"}
"""Names that mean nothing but a kind of source: ``file`` is a scheme and a kind of sink, too."""
OTHER_MEANINGS = {
    "__init__.py": "the sink of that name",
    "cli/main.py": "an example in a help text",
    "compatibility/observations.py": "names of measured changes",
    "compatibility/sources.py": "names of measured changes",
    "inspection/confs.py": "Spark's own confs",
    "inspection/kafka_topics.py": "the brokers, which this module asks",
    "inspection/routing.py": "a library of Python, through which a sink's function writes",
    "model/settings/spark_confs.py": "Spark's own confs",
    "sinks/kafka.py": "the sink of that name",
    "sinks/kafka_topic.py": "the brokers of that sink, which this module asks",
    "sinks/kinds/kafka_kind.py": "the sink of that name",
}


def named_kinds(text: str) -> Iterator[str]:
    """Every place in the text of a module that names a kind of source, as ``line: source``."""
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(value)) if id(node) not in docstrings and _names_kind(value):
                yield f"{node.lineno}: {value[:80]}"
            case ast.Compare() if _compares_kinds(node):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Match(subject=subject) if _is_kind(subject) and NAMES & set(_texts(node)):
                yield f"{node.lineno}: match {ast.unparse(subject)}"


def _names_kind(text: str) -> bool:
    """Whether a text contains the name of a kind of source, also within a longer word such as a client's error
    class.
    """
    return any(name in text.lower() for name in OF_SOURCES_ALONE)


def _compares_kinds(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    return any(map(_is_kind, sides)) and any(NAMES & set(_texts(side)) for side in sides)


def _is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "kind"


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_no_kind_of_source_is_named_outside_its_module() -> None:
    """No other module names a kind of source in a comparison, a table or a text, except for the modules in
    ``OTHER_MEANINGS``.
    """
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("sources/") and name not in OTHER_MEANINGS:
            found[name] = list(named_kinds(path.read_text()))
    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.parametrize("name", sorted(OTHER_MEANINGS))
def test_every_listed_exception_for_source_names_is_still_needed(name: str) -> None:
    """Every module that is listed as an exception still needs it, so that no stale exception hides a later
    violation.
    """
    assert list(named_kinds((PACKAGE / name).read_text()))


@pytest.mark.parametrize(
    "text",
    [
        'found = source.kind == "kafka"',
        'found = source.kind == "file"',
        'found = before.kind == after.kind == "file"',
        'found = "file" != each.kind',
        'found = source.kind in ("file", "rate")',
        'match source.kind:\n    case "file":\n        pass',
        'readers = {"kafka": None}',
        'where = f"source {source} (kafka)"',
        'lost = re.compile("KAFKA_DATA_LOSS")',
        'away = {"KafkaTimeoutError"}',
    ],
)
def test_every_way_of_naming_a_kind_of_source_is_found(text: str) -> None:
    """Negative control: a kind of source is found in comparisons, a ``match``, a table, a message, a regular expression
    and a set.
    """
    assert list(named_kinds(text))


def test_comparing_a_url_scheme_does_not_count_as_naming_a_source_kind() -> None:
    """Comparing a scheme with ``file`` does not count as naming a kind of source."""
    assert list(named_kinds('found = scheme == "file"')) == []
