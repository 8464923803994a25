"""Tests the code parts that a manifest records for each function, value and file that a job's code reaches."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamkeeper.authoring.job_code import run_job_file
from streamkeeper.compatibility.assess import find_changes
from streamkeeper.inspection.code_digest import CodeDigest
from streamkeeper.inspection.query_manifest import describe
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.manifest import CodePart, Manifest
from tests.inspection.queries import query, read, totals, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = {
    "settings.py": """
        LIMIT = 10  # rows
        RATES = {"eu": 2, "api_token": "abcdefgh"}
        API_TOKEN = "ijklmnop"
        """,
    "lib/__init__.py": "",
    "lib/rates.py": """
        import functools
        import settings

        def scaled(by):
            def decorate(function):
                @functools.wraps(function)
                def wrapper(x):
                    return function(x) * by
                return wrapper
            return decorate

        @scaled(2)
        def rate(x):
            '''Not code.'''
            return x * settings.RATES["eu"] if settings.API_TOKEN else 0
        """,
    "lib/prices.py": """
        from lib.rates import rate
        from settings import LIMIT

        def price(x):
            # a comment
            return min(rate(x), LIMIT)
        """,
    "job.py": """
        from lib.prices import price

        def plus(x: int) -> int:
            return price(x) + 1
        """,
}


def write(root: Path, files: Mapping[str, str], *edits: tuple[str, str]) -> Path:
    """Write a bundle with texts replaced in every file that contains them."""
    for name, text in files.items():
        shown = textwrap.dedent(text).lstrip("\n")
        for before, after in edits:
            shown = shown.replace(before, after)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(shown)
    return root


def parts_of(root: Path) -> dict[str, CodePart]:
    """Return the code parts of ``plus`` in ``job.py``."""
    digests = CodeDigest(root)
    return digests.parts.of({"above/0 plus": digests.of(run_job_file(root, "job.py").plus)})[0]


def test_each_function_and_value_that_is_reached_is_a_part(tmp_path: Path) -> None:
    """Each reached function and value is a part with its own file, line and text, without the text of what it uses."""
    parts = parts_of(write(tmp_path, FILES))
    assert parts["job.plus"].text == "def plus(x: int) -> int:\n    return price(x) + 1"
    assert parts["lib.rates.rate"].place == "lib/rates.py:12"
    assert parts["lib.rates.rate"].lines == (12, 13, 15)
    assert "Not code" not in parts["lib.rates.rate"].text
    assert (parts["settings.LIMIT"].text, parts["settings.LIMIT"].place) == ("10", "settings.py:1")
    assert parts["lib.rates.scaled.<locals>.decorate.<locals>.wrapper(by)"].text == "2"


def test_values_named_like_secrets_are_not_recorded(tmp_path: Path) -> None:
    """Values named like secrets are recorded neither as text nor as a separate digest, from which a short secret could
    be guessed.
    """
    stored = to_json(parts_of(write(tmp_path, FILES))).decode()
    assert "abcdefgh" not in stored
    assert "ijklmnop" not in stored
    assert "settings.API_TOKEN" not in parts_of(tmp_path)
    other = to_json(parts_of(write(tmp_path / "other", FILES, ("abcdefgh", "12345678"), ("ijklmnop", "87654321"))))
    assert other.decode() == stored


def test_a_comment_a_docstring_and_an_annotation_are_no_part_of_a_digest(tmp_path: Path) -> None:
    """Comments, docstrings and annotations do not change a part's digest, and an edit of one function's code changes
    the digest of that part alone.
    """
    before = parts_of(write(tmp_path / "a", FILES))
    same = parts_of(
        write(tmp_path / "b", FILES, ("# a comment", "# none\n"), ("Not code", "No"), ("x: int", "x: float"))
    )
    digests = {name: part.digest for name, part in before.items()}
    assert {name: part.digest for name, part in same.items()} == digests
    other = parts_of(write(tmp_path / "c", FILES, ("min(rate(x), LIMIT)", "max(rate(x), LIMIT)")))
    assert [name for name, part in other.items() if part.digest != digests[name]] == ["lib.prices.price"]


def test_a_long_function_has_a_digest_and_no_text(tmp_path: Path) -> None:
    """A very long function is recorded with its digest and line but without its text, which keeps the manifest
    small.
    """
    body = "\n".join(f"    x = x + {number}" for number in range(200))
    parts = parts_of(write(tmp_path, {"job.py": f"def plus(x):\n{body}\n    return x\n"}))
    assert parts["job.plus"].text == ""
    assert parts["job.plus"].digest
    assert parts["job.plus"].place == "job.py:1"


@pytest.fixture
def described(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Manifest]]:
    """Return a function that describes a query calling ``plus`` below its state, with texts replaced in the bundle."""
    from pyspark.sql import functions as F

    write_files(tmp_path / "in", 1)
    known = set(sys.modules)

    def build(*edits: tuple[str, str]) -> Manifest:
        root = write(tmp_path / f"bundle{len(list(tmp_path.iterdir()))}", FILES, *edits)
        importlib.invalidate_caches()
        plus = F.udf(run_job_file(root, "job.py").plus, "long")
        made = query(totals(read(spark, tmp_path / "in").withColumn("x", plus("x"))))
        return describe(made, spark, bundle_root=root)

    yield build
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("job", "lib", "settings"):
            del sys.modules[name]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("edits", "evidence", "line"),
    [
        (
            [("min(rate(x), LIMIT)", "max(rate(x), LIMIT)")],
            "function lib.prices.price (lib/prices.py:6): `return min(rate(x), LIMIT)` → `return max(rate(x), LIMIT)`",
            "lib/prices.py:6",
        ),
        ([("LIMIT = 10", "\nLIMIT = 20")], "value settings.LIMIT (settings.py:2): `10` → `20`", "settings.py:2"),
        (
            [("@scaled(2)", "@scaled(3)")],
            "function lib.rates.rate (lib/rates.py:12): `@scaled(2)` → `@scaled(3)`; "
            "value by of lib.rates.scaled.decorate.wrapper (lib/rates.py:6): `2` → `3`",
            "lib/rates.py:12",
        ),
        (
            [('"eu": 2', '"eu": 3'), ("# a comment", "# another")],
            "value settings.RATES (settings.py:2): `{'eu': 2}` → `{'eu': 3}`",
            "settings.py:2",
        ),
    ],
    ids=["a helper two modules away", "a constant", "a decorator", "a value in a table"],
)
def test_a_finding_about_a_function_names_what_changed_below_it(
    described: Callable[..., Manifest], edits: list[tuple[str, str]], evidence: str, line: str
) -> None:
    """A finding about a function that Spark calls names the helper, constant, decorator or table entry that changed
    below it, with file and line.
    """
    findings = find_changes(described(), described(*edits))
    [found] = [each for each in findings if each.rule == "code-in-state-changed"]
    assert found.where == "Python function plus, on which the state of the aggregation depends"
    assert (found.evidence, found.line) == (evidence, line)


@pytest.mark.spark
def test_the_same_bundle_elsewhere_has_the_same_parts_and_no_finding(described: Callable[..., Manifest]) -> None:
    """Negative control: two bundles in different directories that differ in a comment alone have equal parts and yield
    no finding.
    """
    one, other = described(), described(("# a comment", "# another"))
    assert one.parts == other.parts
    assert find_changes(one, other) == ()
