"""The guarantees and the tests behind them: reads both lists and renders the one for readers.

``python -m tests.guarantees``, a part of ``make reference``, writes ``guarantee-tests.md`` beside ``guarantees.md``.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
GUARANTEES = next((ROOT / "docs").rglob("guarantees.md"))
APPENDIX = GUARANTEES.with_name("guarantee-tests.md")
SOURCE = Path(__file__).with_suffix(".toml")
ASSUMPTION = "assume-"
"""Ids that begin like this are assumptions; they may have no test."""

_HEADING = re.compile(r"^(#{2,3} .+)$")
_ID = re.compile(r"^(?:- |\| )`([a-z0-9]+-\d+)`")
_HEAD = """# Guarantees and their tests

Generated from `tests/guarantees.toml` by `python -m tests.guarantees`; do not edit. Ids are those of
[guarantees.md](guarantees.md). A test is `file::function`, or a whole file. A *negative control* runs with a protection
switched off and must find the damage; some tests contain theirs.
"""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What shows that one guarantee holds.

    ``tests`` and ``controls``: ids, ``file::function`` or a file; ``controls_show``: what the controls switch off or
    change; ``also``: evidence that is not a test, and conditions of the tests. The last two are Markdown, or empty.
    """

    tests: list[str]
    controls: list[str] = []
    controls_show: str = ""
    also: str = ""


def read_evidence() -> dict[str, Evidence]:
    """Guarantee's id -> its evidence; raises for an unknown key."""
    return msgspec.convert(tomllib.loads(SOURCE.read_text()), dict[str, Evidence])


@cache
def functions_of(file: str) -> set[str]:
    """Names of all functions and methods in a Python file of the repository; ``file``: its path from the root."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def read_ids(text: str) -> list[str]:
    """The ids in the text of the guarantees, in their order, repeated ones included."""
    return [found[1] for line in text.splitlines() if (found := _ID.match(line))]


def render(text: str, evidence: dict[str, Evidence]) -> str:
    """The appendix, under the headings of the guarantees' text; a heading without ids is left out."""
    lines, headings = [_HEAD], dict[int, str]()
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            level = line.index(" ")
            headings = {each: title for each, title in headings.items() if each < level} | {level: heading[1]}
        elif (found := _ID.match(line)) and found[1] in evidence:
            lines += [title + "\n" for title in headings.values()]
            headings.clear()
            lines += [*_render_one(found[1], evidence[found[1]]), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _render_one(name: str, evidence: Evidence) -> list[str]:
    lines = [f"**`{name}`**" + (f" ({evidence.also})" if evidence.also else ""), ""]
    if evidence.controls_show:
        lines += [f"Negative control: {evidence.controls_show}.", ""]
    for each in evidence.tests:
        lines.append(f"- `{each}`" + (", with its negative control" if each in evidence.controls else ""))
    lines += [f"- Negative control: `{each}`" for each in evidence.controls if each not in evidence.tests]
    return lines


if __name__ == "__main__":
    APPENDIX.write_text(render(GUARANTEES.read_text(), read_evidence()))
