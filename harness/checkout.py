"""Identifies the code that a result was measured with: the commit, and the content of the folders that take part in
every run.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.places import ROOT

FOLDERS = ("plugins", "dags", "jobs")
"""The folders with the measured code; all other folders measure it or record the results."""
DIRTY = "dirty"
_DIGITS = 12


def read_origin(root: Path = ROOT) -> dict[str, str]:
    """Return the ``commit`` and the ``code`` with which each result line or report begins."""
    return {"commit": read_commit(root), "code": read_code(root)}


def read_commit(root: Path = ROOT) -> str:
    """Return the short id of the checked-out commit."""
    return _git(root, "rev-parse", "--short", "HEAD")


def read_code(root: Path = ROOT, folders: Sequence[str] = FOLDERS) -> str:
    """Return the ids of the git trees of these folders in the commit, as in ``plugins:0123456789ab dags:… jobs:…``.

    Equal texts mean equal files, whatever else differs between two commits; ``git rev-parse COMMIT:plugins`` prints the
    id for any other commit. The text ends with ``dirty`` if a file of these folders is new or differs from the commit.
    """
    trees = _git(root, "rev-parse", *(f"HEAD:{folder}" for folder in folders)).split()
    named = [f"{folder}:{tree[:_DIGITS]}" for folder, tree in zip(folders, trees, strict=True)]
    return " ".join([*named, DIRTY] if is_changed(root, *folders) else named)


def is_changed(root: Path, *paths: str) -> bool:
    """Return whether a file below these paths (or anywhere, without paths) differs from the commit, or is new and not
    ignored.
    """
    return bool(_git(root, "status", "--porcelain", "--", *paths))


def _git(root: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return run.stdout.strip()
