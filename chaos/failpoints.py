"""``python -m chaos.failpoints``: list the failpoints of Streamkeeper that no case in ``bench/results`` has hit.

Names that are composed of a step and an action (``act.…``, ``stop.…``) are left out, because only a trace shows which
of them exist.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

import msgspec

from harness.places import ROOT
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.records.journal_records import Record
from streamkeeper.model.watch.incident import IncidentRecord

_AWAY = "drivers elsewhere are struck by seeds alone"
_NEWER = "newer than the last run of the named points"
NOT_HIT: Mapping[str, str] = {
    "driver.output.begun.after": _NEWER,
    "launch.pod.after": _AWAY,
    "launch.secret.after": _AWAY,
}
"""The failpoints that no case has hit yet, and why; a new failpoint has to be hit, or to be listed here."""
PLUGINS = ROOT / "plugins"
RESULTS = ROOT / "bench/results"
_NAME = re.compile(r"[\w.-]+\w")
_TRACED = ("{name}.before", "{name}.after")


def named_points(plugins: Path = PLUGINS) -> set[str]:
    """Return every failpoint whose name is in the code; raises LookupError for a name that is composed in an unknown
    way.
    """
    texts = [file.read_text() for file in sorted(plugins.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts if "crash_point(" in text or "put_object(" in text]
    families: Mapping[str, Iterable[str]] = {
        "command.{kind.value}": [each.value for each in CommandKind],
        "incident.{tag}": map(_tag, get_args(IncidentRecord)),
        "object.{kind}": _kinds_of_objects(trees),
        "record.{tag}": map(_tag, get_args(Record)),
    }
    made = {f"{family}.{when}": (family, when) for family in families for when in ("before", "after")}
    members = {family: list(each) for family, each in families.items()}
    found: set[str] = set()
    for point in _arguments(trees, "crash_point", 0):
        if point in made:
            family, when = made[point]
            found |= {f"{family.partition('{')[0]}{each}.{when}" for each in members[family]}
        elif "{" not in point:
            found.add(point)
        elif point not in _TRACED:
            raise LookupError(f"nobody knows which failpoints are {point}")
    return found


def hit_points(results: Path = RESULTS) -> set[str]:
    """Return every failpoint, among other words, that the cases in these files report as hit."""
    lines = [json.loads(line) for file in results.glob("*.jsonl") for line in file.read_text().splitlines()]
    return {word for line in lines for hit in line.get("hits") or () for word in _NAME.findall(hit)}


def _kinds_of_objects(trees: Iterable[ast.Module]) -> set[str]:
    return set(_arguments(trees, "put_object", 2))


def _arguments(trees: Iterable[ast.Module], function: str, position: int) -> Iterator[str]:
    """Yield the argument at a position of every call of a function: a text, or one with ``{…}`` in it."""
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(node.func, ast.Name) and node.func.id == function:
            match node.args[position]:
                case ast.Constant(value=str(text)):
                    yield text
                case ast.JoinedStr() as made:
                    yield ast.unparse(made)[2:-1]
                case other:
                    raise LookupError(f"line {node.lineno}: {function} of {ast.unparse(other)}")


def _tag(record: type[msgspec.Struct]) -> str:
    return str(record.__struct_config__.tag)


def main() -> None:
    """Print the failpoints that no case has hit."""
    points = named_points()
    missing = sorted(points - hit_points())
    for point in missing:
        print(f"{point:32}{NOT_HIT.get(point, 'a case has to hit it')}")
    print(f"{len(missing)} of {len(points)} failpoints appear in no raw result")


if __name__ == "__main__":
    main()
