"""The state of ``plugins/`` for which an answer of the check holds."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from harness.places import ROOT


def digest_of(folder: Path) -> str:
    """Return twelve hexadecimal digits for every file below a folder, by name and content.

    Compiled files are left out, and so are comments and docstrings of Python files: no answer depends on them.
    """
    found = hashlib.sha256()
    files = [each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    for file in sorted(files, key=lambda each: each.relative_to(folder).as_posix()):
        found.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        found.update(hashlib.sha256(_content(file)).digest())
    return found.hexdigest()[:12]


def _content(file: Path) -> bytes:
    if file.suffix != ".py":
        return file.read_bytes()
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [each for each in body if not _is_text(each)]
    return ast.dump(tree).encode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def plugins_state() -> str:
    """Return the digest of this checkout's ``plugins/`` at the time of the first call."""
    return digest_of(ROOT / "plugins")
