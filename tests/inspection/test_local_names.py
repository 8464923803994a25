"""Tests function digests without local variable names: equal if only the names differ, and absent if the code may see
them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from streamkeeper.inspection.code_digest import CodeDigest

PLAIN = """
import re
LIMIT = 5
def helper(x):
    doubled = x * 2
    return doubled
def f(x, *rest, by=1, **more):
    total = 0
    for part in [x, *rest]:
        try:
            total += helper(part) * by
        except ValueError as reason:
            raise TypeError from reason
    found = [each for each in rest if each > total]
    return total, found
"""
SEEING = """
import pandas as pd
limit = 5
def f(frame):
    limit = 3
    {}
    return frame, limit
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Return a function that loads a module text and returns the digest of ``f`` with and without local names."""
    count = 0

    def digests(text: str) -> tuple[str, str]:
        nonlocal count
        count += 1
        root = tmp_path / str(count)
        root.mkdir()
        (root / "bundle_job.py").write_text(text)
        sys.modules.pop("bundle_job", None)
        importlib.invalidate_caches()
        sys.path.insert(0, str(root))
        try:
            module: ModuleType = importlib.import_module("bundle_job")
        finally:
            sys.path.remove(str(root))
        digest = CodeDigest(root)
        return digest.of(module.f), digest.normal_forms(module.f).renamed

    yield digests
    sys.modules.pop("bundle_job", None)


def renamed(*pairs: tuple[str, str]) -> str:
    text = PLAIN
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize(
    "text",
    [
        renamed(("found", "kept")),
        renamed(("part", "piece"), ("doubled", "twice")),
        renamed(("reason", "problem")),
        renamed(("each", "one")),
        renamed(("found", "LIMIT")),
    ],
    ids=["a variable", "in a helper too", "an exception", "in a comprehension", "like a global"],
)
def test_renamed_local_variables_keep_the_digest_without_names(
    loaded: Callable[[str], tuple[str, str]], text: str
) -> None:
    """Functions that differ only in local names have different plain digests and the same digest without names."""
    (before, plain), (after, other) = loaded(PLAIN), loaded(text)
    assert before != after
    assert plain == other != ""


@pytest.mark.parametrize(
    "text",
    [
        renamed(("return total, found", "return found, total")),
        renamed(("x * 2", "x * 3")),
        renamed(("by=1", "at=1"), ("* by", "* at")),
        renamed(("*rest", "*others"), ("in rest", "in others")),
        renamed(("**more", "**kept")),
        renamed(("each > total", "each > LIMIT")),
        renamed(("total += helper", "part += helper")),
        renamed(("except ValueError", "except KeyError")),
        renamed(("    total = 0\n", "    global total\n    total = 0\n")),
        renamed(("total", "result")),
    ],
    ids=[
        *("swapped", "a helper's value", "a parameter", "all positional", "all by name", "a global for a local"),
        *("another variable", "another exception", "a local that becomes a global", "shared with an inner function"),
    ],
)
def test_changes_beyond_local_names_alter_the_digest_without_names(
    loaded: Callable[[str], tuple[str, str]], text: str
) -> None:
    """Swapped variables and changed parameters, globals or exception handlers yield a different digest even without
    local names.
    """
    assert loaded(PLAIN)[1] != loaded(text)[1]


@pytest.mark.parametrize(
    "line",
    [
        "print(dir())",
        "print(locals())",
        "print(vars())",
        "eval('limit')",
        "frame = frame.query('x > @limit')",
        "frame = frame.query(CONDITION)",
        "frame = frame.eval('y = x + 1')",
        "print(getattr(frame, 'query'))",
        "import duckdb; frame = duckdb.sql('select * from frame')",
        "import sys; print(sys._getframe().f_locals)",
        "print(f.__code__.co_varnames)",
        "print((lambda: limit).__closure__, '@limit')",
    ],
)
def test_code_that_may_read_variables_by_name_has_no_digest_without_names(
    loaded: Callable[[str], tuple[str, str]], line: str
) -> None:
    """Negative control: code that may read its variables by name has no digest without names, because a renamed
    ``limit`` would refer to the global.
    """
    assert loaded(SEEING.format(line))[1] == ""
