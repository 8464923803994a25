"""Tests the digest of a Python function and of the code and data that it uses."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.model.manifests.manifest import UNREADABLE

HELPERS = """
RATE = {"eu": 2, "us": 3}

def rate(region):
    return RATE[region]
"""

JOB = """
import math
import bundle_helpers
from bundle_helpers import rate

SCALE = 10

class Totals:
    def __init__(self, start):
        self.start = start
    def add(self, value):
        return self.start + value

def direct(value):
    return value * SCALE

def through_name(value):
    return rate(value)

def through_module(value):
    return bundle_helpers.rate(value)

def late(value):
    import bundle_helpers as there
    return there.rate(value)

def library(value):
    return math.floor(value)

def instance(value, totals=Totals(1)):
    return totals.add(value)

def factory(limit):
    def inner(value):
        return value > limit and SCALE
    return inner

names = lambda value: value in {"a", "b", "c", "d"}
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that loads both modules from a new directory each time, with replacements in their text, and
    returns a digest.
    """
    count = 0

    def load(
        name: str, *arguments: object, job: tuple[str, str] = ("", ""), helpers: tuple[str, str] = ("", "")
    ) -> str:
        nonlocal count
        count += 1
        root = tmp_path / str(count)
        root.mkdir()
        (root / "bundle_helpers.py").write_text(HELPERS.replace(*helpers) if helpers[0] else HELPERS)
        (root / "bundle_job.py").write_text(JOB.replace(*job) if job[0] else JOB)
        return digest(fresh(root), name, arguments, root)

    def fresh(root: Path) -> ModuleType:
        for module in ("bundle_job", "bundle_helpers"):
            sys.modules.pop(module, None)
        importlib.invalidate_caches()
        sys.path.insert(0, str(root))
        try:
            return importlib.import_module("bundle_job")
        finally:
            sys.path.remove(str(root))

    def digest(module: ModuleType, name: str, arguments: tuple[object, ...], root: Path) -> str:
        function = getattr(module, name)
        return CodeDigest(root).of(function(*arguments) if arguments else function)

    yield load
    for module in ("bundle_job", "bundle_helpers"):
        sys.modules.pop(module, None)


ALL = ["direct", "through_name", "through_module", "late", "library", "instance", "names"]


@pytest.mark.parametrize("name", ALL)
def test_the_same_code_elsewhere_has_the_same_digest(job: Any, name: str) -> None:
    """The digest does not depend on the bundle's directory or on how often the code was loaded."""
    assert job(name) == job(name)


@pytest.mark.parametrize(
    ("name", "where", "before", "after"),
    [
        ("direct", "job", "value * SCALE", "value + SCALE"),
        ("direct", "job", "SCALE = 10", "SCALE = 11"),
        ("through_name", "helpers", "RATE[region]", "-RATE[region]"),
        ("through_name", "helpers", '"us": 3', '"us": 4'),
        ("through_module", "helpers", "RATE[region]", "-RATE[region]"),
        ("through_module", "helpers", '"us": 3', '"us": 4'),
        ("late", "helpers", '"us": 3', '"us": 4'),
        ("library", "job", "math.floor", "math.ceil"),
        ("instance", "job", "self.start + value", "self.start - value"),
        ("instance", "job", "Totals(1)", "Totals(2)"),
        ("names", "job", '"d"', '"e"'),
        ("through_name", "helpers", '{"eu": 2, "us": 3}', '{"us": 3, "eu": 2}'),
    ],
)
def test_a_change_that_can_change_the_result_changes_the_digest(
    job: Any, name: str, where: str, before: str, after: str
) -> None:
    """The digest changes with the function, its constants, the functions it calls, the data that those use, and the
    order of a table.
    """
    assert job(name) != job(name, **{where: (before, after)})


@pytest.mark.parametrize(
    ("name", "where", "before", "after"),
    [
        ("direct", "job", "    return value * SCALE", '    "says more"\n    # and more\n\n    return (value * SCALE)'),
        ("direct", "job", "def library", "def unrelated():\n    return 1\n\ndef library"),
        ("direct", "helpers", "RATE[region]", "-RATE[region]"),
        ("through_module", "helpers", "def rate", "# why\ndef rate"),
        ("names", "job", '{"a", "b", "c", "d"}', '{"d", "c", "b", "a"}'),
    ],
)
def test_a_change_that_cannot_change_the_result_keeps_the_digest(
    job: Any, name: str, where: str, before: str, after: str
) -> None:
    """The digest ignores comments, docstrings, formatting, unused code and the order of a set."""
    assert job(name) == job(name, **{where: (before, after)})


def test_the_digest_includes_values_captured_in_a_closure(job: Any) -> None:
    """A value captured in a closure, such as a param of the job, is part of the digest."""
    assert job("factory", 3) == job("factory", 3)
    assert job("factory", 3) != job("factory", 4)


def test_the_digest_includes_what_functools_wrappers_bind_or_wrap() -> None:
    """The digest includes arguments bound by ``functools.partial`` and the function wrapped by
    ``functools.lru_cache``.
    """
    digest = CodeDigest(None).of
    assert digest(functools.partial(pow, 2)) != digest(functools.partial(pow, 3))
    assert digest(functools.lru_cache(lambda x: x)) != digest(functools.lru_cache(lambda x: -x))


def test_recursive_functions_and_lists_have_a_stable_digest() -> None:
    """A recursive function and a list that contains itself have a stable digest."""
    loop: list[object] = []
    loop.append(loop)

    def down(n: int) -> object:
        return down(n - 1) if n else loop

    assert CodeDigest(None).of(down) == CodeDigest(None).of(down)


def test_a_function_that_uses_a_socket_has_a_digest_marked_unreadable() -> None:
    """A function that uses a socket has a stable digest that is marked as unreadable, because a socket has no content
    to compare.
    """
    with socket.socket() as one, socket.socket() as other:
        assert CodeDigest(None).of(lambda: one).startswith(UNREADABLE)
        assert CodeDigest(None).of(lambda: one) == CodeDigest(None).of(lambda: one)
        assert CodeDigest(None).of(lambda: other).startswith(UNREADABLE)


def test_a_function_that_uses_a_lock_has_a_readable_digest() -> None:
    """A function that uses a lock has a readable digest, because a lock stands for nothing outside the code."""
    lock = threading.Lock()
    assert not CodeDigest(None).of(lambda: lock).startswith(UNREADABLE)


def test_digests_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    """Three processes with different hash seeds and bundle directories compute the same digests."""
    found = set()
    for seed in ("1", "2", "3"):
        root = tmp_path / seed
        root.mkdir()
        (root / "bundle_helpers.py").write_text(HELPERS)
        (root / "bundle_job.py").write_text(JOB)
        script = f"""
            from pathlib import Path
            import bundle_job
            from streamkeeper.inspection.code_digest import CodeDigest
            for name in {ALL!r}:
                print(CodeDigest(Path({str(root)!r})).of(getattr(bundle_job, name)))
            print(CodeDigest(Path({str(root)!r})).of(bundle_job.factory({{"x", "y", "z"}})))
        """
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, check=True
        )
        assert UNREADABLE not in ran.stdout
        found.add(ran.stdout)
        shutil.rmtree(root)
    assert len(found) == 1
