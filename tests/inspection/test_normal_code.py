"""Tests the normal form of a function's code: rewritings that provably do the same, each beside a similar one that does
not.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType

import pytest
from pyspark import cloudpickle

from streamkeeper.inspection.code_digest import CodeDigest

Loaded = Callable[..., tuple[str, str]]
HELPERS = """
    PARTS = {"separator": "-", "width": 4}
    OTHERS = {"separator": "-", "width": 4}
    LIMIT = 5
    SIGNS = {"fee": -1, "deposit": 1}
    def join(bank, reference, options=PARTS, *, by=1, width=4):
        return options["separator"].join([bank, reference]) * by
    def held(part=OTHERS):
        part["x"] = 1
        return part
"""


@pytest.fixture(params=["by name", "by value"])
def loaded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Loaded]:
    """Return a function that yields the plain digest and the normal-form digest of ``f``, for a job beside
    ``bundle_helpers``, as Spark sends it to a worker.
    """
    yield from _loaded(tmp_path, by_value=request.param == "by value")


@pytest.fixture
def named(tmp_path: Path) -> Iterator[Loaded]:
    """Return the same digests for a function that a worker finds in its module."""
    yield from _loaded(tmp_path, by_value=False)


def _loaded(tmp_path: Path, *, by_value: bool) -> Iterator[Loaded]:
    numbers = itertools.count()

    def sent(function: FunctionType) -> FunctionType:
        if not by_value:
            return function
        # Spark sends a function by value that its module does not have under its name.
        del sys.modules["bundle_job"].f  # type: ignore[attr-defined]
        try:
            found, _ = cloudpickle.loads(cloudpickle.dumps((function, "string")))
        finally:
            sys.modules["bundle_job"].f = function  # type: ignore[attr-defined]
        assert found.__globals__ is not function.__globals__
        return found

    def digests(job: str, helpers: str = HELPERS) -> tuple[str, str]:
        root = tmp_path / str(next(numbers))
        root.mkdir(parents=True)
        (root / "bundle_job.py").write_text(textwrap.dedent(job))
        (root / "bundle_helpers.py").write_text(textwrap.dedent(helpers))
        for name in ("bundle_job", "bundle_helpers"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.path.insert(0, str(root))
        try:
            module = importlib.import_module("bundle_job")
        finally:
            sys.path.remove(str(root))
        digest = CodeDigest(root)
        return digest.of(sent(module.f)), digest.normal_forms(sent(module.f)).rewritten

    yield digests
    for name in ("bundle_job", "bundle_helpers"):
        sys.modules.pop(name, None)


def in_function(body: str, *, top: str = "", parameters: str = "x, y") -> str:
    """Return the text of a job whose function has these statements."""
    return f"{textwrap.dedent(top)}\ndef f({parameters}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


def same(loaded: Loaded, before: str, after: str, *, helpers: tuple[str, str] = (HELPERS, HELPERS)) -> bool:
    """Return whether both texts are proven to do the same; their plain digests must differ, so that the answer rests on
    nothing else.
    """
    (plain, one), (other_plain, other) = loaded(before, helpers[0]), loaded(after, helpers[1])
    assert plain != other_plain
    return one == other != ""


_HELP = (
    "from bundle_helpers import *" and "import re\nfrom bundle_helpers import LIMIT, join\ndef g(x):\n    return x\n"
)
REWRITTEN = {
    "a variable that is used at once": ("text = g(x)\nreturn g(text.strip())", "return g(g(x).strip())"),
    "two of them": ("a = g(x)\nb = a + 1\nreturn b", "return g(x) + 1"),
    "in a condition": ("a = g(x)\nif a > 1:\n    return y\nreturn x", "if g(x) > 1:\n    return y\nreturn x"),
    "in a text": ("a = g(x)\nreturn f'{a}!'", "return f'{g(x)}!'"),
    "an assignment in a condition": (
        "a = g(x)\nif a is None:\n    return y\nreturn a.b",
        "if (a := g(x)) is None:\n    return y\nreturn a.b",
    ),
    "an assignment in a comparison": (
        "a = g(x)\nif a > y and a:\n    return y\nreturn a",
        "if (a := g(x)) > y and a:\n    return y\nreturn a",
    ),
    "a conditional result": ("return x if y else g(x)", "if y:\n    return x\nelse:\n    return g(x)"),
    "a conditional value": ("a = x if y else g(x)\nreturn a, a", "if y:\n    a = x\nelse:\n    a = g(x)\nreturn a, a"),
    "else after return": (
        "if y:\n    return 1\nelse:\n    return x if x else 2",
        "if y:\n    return 1\nif x:\n    return x\nreturn 2",
    ),
    "an early result within try": (
        "if x is None:\n    return y\ntry:\n    return g(x)\nexcept ValueError:\n    return y",
        "try:\n    return y if x is None else g(x)\nexcept ValueError:\n    return y",
    ),
    "a default passed": ("return join(x, y)", "return join(x, y, by=1)"),
    "early results": (
        "if g(x):\n    a = 'one'\nelif g(y):\n    a = 'two'\nelse:\n    a = 'three'\nreturn a",
        "if g(x):\n    return 'one'\nif g(y):\n    return 'two'\nreturn 'three'",
    ),
    "an early result beside another statement": (
        "if g(x):\n    a = g(y)\n    g(a)\nelse:\n    a = 1\nreturn a",
        "if g(x):\n    a = g(y)\n    g(a)\n    return a\nreturn 1",
    ),
    "a constant on the left": ("return x > 5, y >= LIMIT, x == 'a'", "return 5 < x, LIMIT <= y, 'a' == x"),
    "a constant on the left beside an error of another kind": (
        "try:\n    return g(x) > 0.5\nexcept (ValueError, KeyError) as error:\n    return str(error)",
        "try:\n    return 0.5 < g(x)\nexcept (ValueError, KeyError) as error:\n    return str(error)",
    ),
    "a list that a loop fills": (
        "a = []\nfor b in g(x):\n    for c, (d, e) in b:\n        if c:\n            a.append((d, y))\nreturn g(a), a",
        "a = [(d, y) for b in g(x) for c, (d, e) in b if c]\nreturn g(a), a",
    ),
    "a list that is returned": ("a = []\nfor b in x:\n    a.append(g(b))\nreturn a", "return [g(b) for b in x]"),
}


@pytest.mark.parametrize(("before", "after"), REWRITTEN.values(), ids=REWRITTEN)
def test_equivalent_rewritings_have_the_same_normal_form(loaded: Loaded, before: str, after: str) -> None:
    """Each pair of equivalent rewritings has the same normal form in both directions."""
    assert same(loaded, in_function(before, top=_HELP), in_function(after, top=_HELP))
    assert same(loaded, in_function(after, top=_HELP), in_function(before, top=_HELP))


CHANGED = {
    "evaluated before what can change": ("a = g(x)\nreturn y.z + a", "return y.z + g(x)"),
    "evaluated before a method is looked up": ("a = g(x)\nreturn y.add(a)", "return y.add(g(x))"),
    "evaluated before a variable that may have no value": (
        "if y:\n    z = 1\na = g(x)\nreturn z + a",
        "if y:\n    z = 1\nreturn z + g(x)",
    ),
    "evaluated before what is unpacked": ("a = g(x)\nreturn g(*y, a)", "return g(*y, g(x))"),
    "evaluated before what is unpacked by name": ("a = g(x)\nreturn g(**y, x=a)", "return g(**y, x=g(x))"),
    "evaluated before a test": ("a = g(x)\nreturn y and a", "return y and g(x)"),
    "evaluated before another text": ("a = g(x)\nreturn f'{y}{a}'", "return f'{y}{g(x)}'"),
    "evaluated once rather than in a loop": ("a = g(x)\nwhile a:\n    g(y)", "while g(x):\n    g(y)"),
    "evaluated at once rather than later": ("a = g(x)\nreturn lambda: a", "return lambda: g(x)"),
    "used twice": ("a = g(x)\nreturn a, a", "return g(x), g(x)"),
    "used in one branch": ("a = g(x)\nif y:\n    return a", "if y:\n    return g(x)"),
    "another variable assigned in the condition": (
        "a = g(x)\nif a is None:\n    return y\nreturn x",
        "if (x := g(x)) is None:\n    return y\nreturn x",
    ),
    "assigned in the second part of a condition": (
        "a = g(x)\nif y and a:\n    return a\nreturn 1",
        "a = 1\nif y and (a := g(x)):\n    return a\nreturn 1",
    ),
    "branches that changed places": ("return x if y else g(x)", "if y:\n    return g(x)\nreturn x"),
    "no result in one branch": ("return x if y else g(x)", "if y:\n    return x\ng(x)"),
    "else after what goes on": (
        "if y:\n    x += 1\nelse:\n    x += 2\nreturn x",
        "if y:\n    x += 1\nx += 2\nreturn x",
    ),
    "a call that moved into try": (
        "if g(x) is None:\n    return y\ntry:\n    return g(x)\nexcept ValueError:\n    return y",
        "try:\n    if g(x) is None:\n        return y\n    return g(x)\nexcept ValueError:\n    return y",
    ),
    "a test that may fail moved into try": (
        "if x:\n    return y\ntry:\n    return g(x)\nexcept ValueError:\n    return 1",
        "try:\n    if x:\n        return y\n    return g(x)\nexcept ValueError:\n    return 1",
    ),
    "a variable without a value moved into try": (
        "if y:\n    z = 1\nif z is None:\n    return y\ntry:\n    return g(x)\nexcept NameError:\n    return 1",
        "if y:\n    z = 1\ntry:\n    if z is None:\n        return y\n    return g(x)\nexcept NameError:\n    return 1",
    ),
    "an early result before finally": (
        "if x is None:\n    return y\ntry:\n    return g(x)\nexcept ValueError:\n    return 1\nfinally:\n    g(y)",
        "try:\n    if x is None:\n        return y\n    return g(x)\n"
        "except ValueError:\n    return 1\nfinally:\n    g(y)",
    ),
    "not None for true": ("if not x:\n    return y\nreturn x", "if x is None:\n    return y\nreturn x"),
    "added in place": ("x = x + y\nreturn x", "x += y\nreturn x"),
    "another default passed": ("return join(x, y)", "return join(x, y, by=2)"),
    "a default of another type passed": ("return join(x, y)", "return join(x, y, by=True)"),
    "the default of another parameter passed": ("return join(x, y)", "return join(x, y, 4)"),
    "a result that finally sees": (
        "a = 1\ntry:\n    a = g(x)\n    return a\nfinally:\n    g(a)",
        "a = 1\ntry:\n    return g(x)\nfinally:\n    g(a)",
    ),
    "a result that an inner function sees": (
        "a = 1\nb = lambda: a\ny.append(b)\na = g(x)\nreturn a",
        "a = 1\nb = lambda: a\ny.append(b)\nreturn g(x)",
    ),
    "a result that a generator sees": (
        "a = 1\ny.append(a + c for c in x)\na = g(x)\nreturn a",
        "a = 1\ny.append(a + c for c in x)\nreturn g(x)",
    ),
    "a result of one branch only": (
        "a = 1\nif g(x):\n    a = 2\nreturn a",
        "a = 1\nif g(x):\n    return 2\nreturn 2",
    ),
    "a result after another statement": (
        "if x:\n    a = g(x)\ng(y)\nreturn y",
        "if x:\n    a = g(x)\n    return y\ng(y)\nreturn y",
    ),
    "a comparison turned around": ("return 5 < x", "return x < 5"),
    "a comparison that no longer has the bound": ("return 5 <= x", "return x > 5"),
    "variables that changed places": ("return x < y", "return y > x"),
    "another variable first": ("return g(x) < y.z", "return y.z > g(x)"),
    "a chain turned around": ("return 1 < x < 5", "return x > 1 < 5"),
    "a table's comparison turned around": ("return SIGNS == x", "return x == SIGNS"),
    "a list that is not empty first": ("a = [1]\nfor b in x:\n    a.append(b)\nreturn a", "return [b for b in x]"),
    "a list whose loop has an end": (
        "a = []\nfor b in x:\n    a.append(b)\nelse:\n    a.append(1)\nreturn a",
        "return [b for b in x]",
    ),
    "a list that its loop reads": (
        "a = []\nfor b in x:\n    a.append((b, len(a)))\nreturn a",
        "a = []\nreturn [(b, len(a)) for b in x]",
    ),
    "a list that its loop tests": (
        "a = []\nfor b in x:\n    if b not in a:\n        a.append(b)\nreturn a",
        "a = []\nreturn [b for b in x if b not in a]",
    ),
    "a list of which an error shows a part": (
        "try:\n    a = []\n    for b in x:\n        a.append(g(b))\nexcept ValueError:\n    return a\nreturn a",
        "try:\n    a = [g(b) for b in x]\nexcept ValueError:\n    return a\nreturn a",
    ),
    "a list that a context keeps in part": (
        "a = y\nwith y:\n    a = []\n    for b in x:\n        a.append(g(b))\nreturn a",
        "a = y\nwith y:\n    a = [g(b) for b in x]\nreturn a",
    ),
    "a loop's variable that is used later": (
        "b = 1\na = []\nfor b in x:\n    a.append(g(b))\nreturn a, b",
        "b = 1\na = [g(b) for b in x]\nreturn a, b",
    ),
    "a loop's variable that was there before": (
        "b = y\na = []\nfor b in b:\n    a.append(b)\nreturn a, b",
        "b = y\na = [b for b in b]\nreturn a, b",
    ),
    "a list that an inner function sees": (
        "a = []\nx(lambda: a)\na = []\nfor b in y:\n    a.append(b)\nreturn 1",
        "a = []\nx(lambda: a)\na = [b for b in y]\nreturn 1",
    ),
    "an attribute as a loop's variable": (
        "a = []\nfor x.b in y:\n    a.append(x.b)\nreturn a",
        "return [x.b for x.b in y]",
    ),
    "a loop's variable that is also a global": (
        "a = []\nfor LIMIT in LIMIT:\n    a.append(LIMIT)\nreturn a",
        "return [LIMIT for LIMIT in LIMIT]",
    ),
    "extended in place of appended": ("a = []\nfor b in x:\n    a.extend(b)\nreturn a", "return [b for b in x]"),
    "appended to another list": ("a = []\nfor b in x:\n    y.append(b)\nreturn a", "a = [b for b in x]\nreturn a"),
    "conditions in another order": (
        "a = []\nfor b in x:\n    if g(b):\n        if y:\n            a.append(b)\nreturn a",
        "return [b for b in x if y if g(b)]",
    ),
}


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=CHANGED)
def test_a_changed_order_or_number_of_evaluations_changes_the_normal_form(
    loaded: Loaded, before: str, after: str
) -> None:
    """A rewriting that changes the order or number of evaluations, the place where an error is caught or a value has a
    different normal form.
    """
    assert not same(loaded, in_function(before, top=_HELP), in_function(after, top=_HELP))


@pytest.mark.parametrize(
    "use", ["called(x, y)", "called(other=y, value=x)", "called(**x)", "functools.partial(called, value=x)(y)"]
)
def test_the_name_of_a_parameter_counts(loaded: Loaded, use: str) -> None:
    """A renamed parameter yields a different function, because any caller, including one in a library, may pass it by
    name.
    """
    before = "import functools\ndef called(value, other):\n    return value - other\n" + in_function(f"return {use}")
    assert not same(loaded, before, before.replace("(value, other)", "(number, other)").replace("value -", "number -"))


_INLINE = ("a = g(x)\nreturn g(a)", "return g(g(x))")


@pytest.mark.parametrize(
    "top",
    [
        "class Ends:\n    def __del__(self):\n        print('gone')\ndef g(x):\n    return Ends()",
        "import weakref\ndef g(x):\n    return x",
        "def rows():\n    try:\n        yield 1\n    finally:\n        print('gone')\ndef g(x):\n    return rows()",
        "import tempfile\ndef g(x):\n    return tempfile.NamedTemporaryFile()",
        "def g(x):\n    return open(x)",
        "import io\ndef g(x):\n    return io.TextIOWrapper(x)",
        "from concurrent import futures\ndef g(x):\n    return futures.ThreadPoolExecutor()",
        "def g(x):\n    getattr(x, 'set' + 'attr')\n    return x",
        "def g(x):\n    global g\n    g = print\n    return x",
        "import sys\ndef g(x):\n    setattr(sys.modules[__name__], 'g', print)\n    return x",
        "import bundle_job\ndef g(x):\n    bundle_job.g = print\n    return x",
        "def g(x):\n    return x\ndel g\nfrom bundle_helpers import join as g",
    ],
    ids=[
        "__del__",
        "weakref",
        "generator",
        "temporary file",
        "file",
        "wrapper",
        "pool",
        "computed",
        "global",
        "setattr",
        "attribute",
        "deleted",
    ],
)
def test_a_variable_is_not_inlined_if_the_lifetime_of_its_value_matters(loaded: Loaded, top: str) -> None:
    """A local variable is not inlined if its value's lifetime may matter, such as an object with a finaliser, or if a
    call may replace the function.
    """
    assert not same(loaded, in_function(_INLINE[0], top=top), in_function(_INLINE[1], top=top))


def test_how_long_a_literal_lives_does_not_count(loaded: Loaded) -> None:
    """The lifetime of a literal does not matter, so an early return of it is equivalent, but not if the variable may
    hold a call's result instead.
    """
    top = "import weakref\ndef g(x):\n    return x"
    before = "if x:\n    a = 'one'\nelse:\n    a = {}\nreturn a"
    after = "if x:\n    return 'one'\nreturn {}"
    assert same(loaded, in_function(before.format("'two'"), top=top), in_function(after.format("'two'"), top=top))
    assert not same(loaded, in_function(before.format("g(y)"), top=top), in_function(after.format("g(y)"), top=top))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = bump()\n        return n + a", "return n + bump()"),
        ("return x if n else y", "if n:\n            return x\n        return n"),
    ],
)
def test_code_is_not_rewritten_if_an_inner_function_assigns_its_outer_variable(
    loaded: Loaded, before: str, after: str
) -> None:
    """Code that reads a variable of an outer function is not rewritten if a second inner function assigns it."""
    top = """
def outer():
    n = 0
    def bump():
        nonlocal n
        n += 1
        return n
    def f(x, y):
        {}
    return f
f = outer()
"""
    assert not same(loaded, top.format(before), top.format(after))


def test_a_renamed_dataclass_in_a_set_counts_as_a_change(named: Loaded) -> None:
    """A renamed dataclass in a set counts as a change, because its ``repr`` shows the class name."""
    top = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass {0}:\n    n: int = 1\nS = {{{0}()}}"
    before = in_function("return x if y else str(S)", top=top.format("A"))
    after = in_function("if y:\n    return x\nreturn str(S)", top=top.format("B"))
    assert not same(named, before, after)


def test_code_that_calls_locals_is_never_rewritten(loaded: Loaded) -> None:
    """Code that calls ``locals()`` is not rewritten, because it would see that a variable was removed."""
    top = "def g(x):\n    return x\n"
    before, after = "a = g(x)\nreturn g(a), locals()", "return g(g(x)), locals()"
    assert not same(loaded, in_function(before, top=top), in_function(after, top=top))


LIBRARY = {
    "a function": ("import hashlib", "hashlib.md5(x)", "from hashlib import md5", "md5(x)"),
    "under another name": ("import hashlib", "hashlib.md5(x)", "from hashlib import md5 as h", "h(x)"),
    "a module within a module": ("import os", "os.path.join(x, y)", "from os.path import join", "join(x, y)"),
    "a class": ("import datetime", "datetime.timedelta(x)", "from datetime import timedelta", "timedelta(x)"),
}


@pytest.mark.parametrize(("one", "use", "other", "other_use"), LIBRARY.values(), ids=LIBRARY)
def test_library_code_counts_as_the_same_however_it_was_imported(
    loaded: Loaded, one: str, use: str, other: str, other_use: str
) -> None:
    """A library function or class counts as the same however it was imported."""
    assert same(loaded, in_function(f"return {use}", top=one), in_function(f"return {other_use}", top=other))


@pytest.mark.parametrize(
    ("one", "use", "other", "other_use"),
    [
        ("import hashlib", "hashlib.md5(x)", "from hashlib import sha1", "sha1(x)"),
        ("import hashlib", "hashlib.md5(x)", "from hashlib import sha1 as md5", "md5(x)"),
        ("import hashlib", "hashlib.md5(x)", "import hashlib\nmd5 = hashlib.md5 if __name__ else 1", "md5(x)"),
        (
            "import hashlib",
            "hashlib.md5(x)",
            "try:\n    from hashlib import md5\nexcept ImportError:\n    md5 = 1",
            "md5(x)",
        ),
        (
            "import hashlib\ndef g():\n    hashlib.md5 = print",
            "g(), hashlib.md5(x)",
            "import hashlib\nfrom hashlib import md5\ndef g():\n    hashlib.md5 = print",
            "g(), md5(x)",
        ),
        (
            "import hashlib\ndef g():\n    setattr(hashlib, 'm' 'd5', print)",
            "g(), hashlib.md5(x)",
            "import hashlib\nfrom hashlib import md5\ndef g():\n    setattr(hashlib, 'm' 'd5', print)",
            "g(), md5(x)",
        ),
        (
            "import hashlib\nhashlib.md5 = hashlib.sha1",
            "hashlib.md5(x)",
            "import hashlib\nfrom hashlib import md5\nhashlib.md5 = hashlib.sha1",
            "md5(x)",
        ),
    ],
    ids=["another", "another by the name", "chosen", "tried", "replaced later", "replaced by name", "replaced before"],
)
def test_library_code_that_may_be_rebound_or_replaced_counts_as_different(
    loaded: Loaded, one: str, use: str, other: str, other_use: str
) -> None:
    """A library function counts as different if the name may be bound to a different object, or if the library's
    attribute may be replaced.
    """
    import hashlib

    kept = hashlib.md5
    try:
        assert not same(loaded, in_function(f"return {use}", top=one), in_function(f"return {other_use}", top=other))
    finally:
        hashlib.md5 = kept  # type: ignore[misc]


_TABLE = 'T = {"a": 1, "b": 2}'
_TURNED = 'T = {"b": 2, "a": 1}'


@pytest.mark.parametrize(
    "use",
    ["T[x]", "T.get(x)", "T.get(x, y)", "x in T", "x not in T", "len(T)", "x.map(T)", "[T[each] for each in x]"],
)
def test_the_order_of_a_table_does_not_count_where_only_its_entries_are_used(loaded: Loaded, use: str) -> None:
    """The order of a table is ignored if only its entries are used, also in ``map`` of pandas, while a changed entry
    counts.
    """
    before = in_function(f"return {use}", top=_TABLE)
    assert same(loaded, before, in_function(f"return {use}", top=_TURNED))
    assert not same(loaded, before, in_function(f"return {use}", top=_TURNED.replace("2", "3")))
    assert not same(loaded, before, in_function(f"return {use}", top=_TURNED.replace('"b"', '"c"')))


_TABLE_USES = {
    "iterated": "[each for each in T]",
    "listed": "T[x], list(T)",
    "items": "T.items()",
    "handed on": "print(T)",
    "in a text": "T[x], f'{T}'",
    "given a default": "T.setdefault(x, y)",
    "returned": "T",
    "copied": "{**T}",
    "compared in a chain": "x in T in y",
    "taken from": "T.popitem()",
    "a method that is kept": "(lambda get: get(x), T.__iter__)",
    "mapped otherwise": "x.map(T, y)",
    "the default of a lambda": "(lambda t=T: next(iter(t)))()",
}


@pytest.mark.parametrize("use", _TABLE_USES.values(), ids=_TABLE_USES)
def test_table_order_matters_if_code_may_iterate_over_the_table(loaded: Loaded, use: str) -> None:
    """The order of a table counts wherever code may iterate over it."""
    assert not same(loaded, in_function(f"return {use}", top=_TABLE), in_function(f"return {use}", top=_TURNED))


@pytest.mark.parametrize(
    ("top", "use"),
    [
        ("{}\nU = T", "T[x], list(U)"),
        ("{}\ndef g(t=T):\n    return list(t)", "T[x], g()"),
        ("{}\ndef g():\n    return list(T)", "T[x], g()"),
        ("{}\nclass C:\n    t = T", "T[x], list(C.t)"),
        ("{}\nL = list(T)", "T[x], L"),
        ("{}\nclass K:\n    def __hash__(self):\n        return 1", "T[x]"),
        ("{}\nclass S:\n    def map(self, t):\n        return list(t)\ns = S()", "s.map(T)"),
        ("class D(dict):\n    pass\n{}\nT = D(T)", "T[x]"),
        ("{}\ndef g():\n    global T\n    T = dict(T)", "T[x], g()"),
    ],
    ids=[
        *("aliased", "a default", "another function", "held by a class", "listed at import", "equality of its own"),
        *("a map of its own", "a class of its own", "assigned in a function"),
    ],
)
def test_table_order_matters_if_the_table_is_reachable_by_a_different_route(loaded: Loaded, top: str, use: str) -> None:
    """The order of a table counts if the table is reachable under a different name, as a default, or by code that may
    iterate over it.
    """
    before, after = top.replace("{}", _TABLE), top.replace("{}", _TURNED)
    assert not same(loaded, in_function(f"return {use}", top=before), in_function(f"return {use}", top=after))


def test_table_order_matters_if_the_module_rebuilds_the_table_on_import(named: Loaded) -> None:
    """The order of a table counts if the module rebuilds it on import, because a worker that imports the module may
    build a different one.
    """
    top = "{}\nif print:\n    T = dict(T)"
    before, after = top.format(_TABLE), top.format(_TURNED)
    assert not same(named, in_function("return T[x]", top=before), in_function("return T[x]", top=after))


def test_sharing_of_a_modified_table_by_two_names_matters(named: Loaded) -> None:
    """Whether two names refer to the same table counts if one of them is modified."""
    top = f"{_TABLE}\ndef g(t=T):\n    t['c'] = 3"
    other = f"{_TABLE}\ndef g(t={{'a': 1, 'b': 2}}):\n    t['c'] = 3"
    assert not same(named, in_function("return g(), T[x]", top=top), in_function("return g(), T[x]", top=other))


def _pattern(text: str, flags: str = "re.VERBOSE | re.I", use: str = "P.search(x)") -> str:
    return in_function(f"return {use}", top=f"import re\nP = re.compile(r'''{text}''', {flags})")


_VERBOSE = r"(?P<a> [a-z]+ ) \s : [ ] # a name"


def test_a_pattern_counts_by_what_it_matches(loaded: Loaded) -> None:
    """A regular expression is compared by what it matches: comments, blanks in verbose mode and the spelling of flags
    are ignored.
    """
    assert same(loaded, _pattern(_VERBOSE), _pattern(r"(?P<a>[a-z]+) \s  :[ ]   # who"))
    assert same(loaded, _pattern(_VERBOSE), _pattern(_VERBOSE, "re.X | re.IGNORECASE"))
    assert same(loaded, _pattern(_VERBOSE), _pattern(r"(?P<a>[a-z]+)\s:[ ]", "re.I"))


@pytest.mark.parametrize(
    ("text", "flags", "use"),
    [
        (_VERBOSE.replace("[ ]", " "), "re.X | re.I", "P.search(x)"),
        (_VERBOSE.replace("+", "*"), "re.X | re.I", "P.search(x)"),
        (_VERBOSE.replace("<a>", "<b>"), "re.X | re.I", "P.search(x)"),
        (_VERBOSE.replace(" # a name", r" \# a name"), "re.X | re.I", "P.search(x)"),
        (_VERBOSE, "re.X", "P.search(x)"),
        (_VERBOSE, "re.I", "P.search(x)"),
        (_VERBOSE, "re.X | re.I | re.A", "P.search(x)"),
        (_VERBOSE.replace("a name", "who"), "re.X | re.I", "P.pattern"),
        (_VERBOSE.replace("a name", "who"), "re.X | re.I", "P.search(x), y.pattern"),
        (_VERBOSE.replace("a name", "who"), "re.X | re.I", "P.search(x).re"),
        (_VERBOSE.replace("a name", "who"), "re.X | re.I", "P.search(x), getattr(y, 'pattern')"),
        (_VERBOSE.replace("a name", "who"), "re.X | re.I", "P.search(x), str(P)"),
        (_VERBOSE.replace("a name", "who"), "re.X | re.I", "x.replace(P, y)"),
    ],
)
def test_a_regular_expression_with_a_changed_match_or_used_text_differs(
    loaded: Loaded, text: str, flags: str, use: str
) -> None:
    """A regular expression with a different match or different flags, or whose text the code may read, counts as
    different.
    """
    assert not same(loaded, _pattern(_VERBOSE, use=use), _pattern(text, flags, use))


def test_regex_flag_spellings_are_equal_only_if_re_is_the_imported_module(loaded: Loaded) -> None:
    """Two spellings of a regular expression flag are equal only if ``re`` is certainly the imported module."""
    top = "import re\n{}\nP = re.compile('a', re.{} | re.I)"
    chosen = "if __name__ != 'bundle_job':\n    import enum as re"
    use = "return P.search(x)"
    before = in_function(use, top=top.format("", "X"))
    assert same(loaded, before, in_function(use, top=top.format("", "VERBOSE")))
    assert not same(loaded, before, in_function(use, top=top.format(chosen, "VERBOSE")))


_MOVED = """
    from bundle_helpers import LIMIT{}
    {}
    def f(x):
        return is_hot(x), {}
"""
_HOT = "def is_hot(x):\n    return x > LIMIT\n"


def _moved(into: bool, shown: str = "x") -> tuple[str, str]:
    helpers = textwrap.dedent(HELPERS) + (_HOT if into else "")
    job = textwrap.dedent(_MOVED).format(", is_hot" if into else "", "" if into else _HOT, shown)
    return job, helpers


def test_a_function_moved_to_a_different_module_counts_as_the_same(loaded: Loaded) -> None:
    """A function moved to a different module counts as the same unless its code or the globals it uses change."""
    (before, old), (after, new) = _moved(False), _moved(True)
    assert same(loaded, before, after, helpers=(old, new))
    assert not same(loaded, before, after, helpers=(old, new.replace("x > LIMIT", "x >= LIMIT")))
    assert not same(loaded, before, after, helpers=(old, new.replace("LIMIT = 5", "LIMIT = 6")))
    assert not same(loaded, before, after, helpers=(old, new.replace("LIMIT = 5", "LIMIT = 5 if __name__ else 6")))


@pytest.mark.parametrize("shown", ["is_hot.__module__", "is_hot.__qualname__", "vars(is_hot)", "print(dir(is_hot))"])
def test_a_moved_function_differs_if_code_reads_its_module_or_qualified_name(loaded: Loaded, shown: str) -> None:
    """A moved function counts as different if code reads its module or qualified name."""
    (before, old), (after, new) = _moved(False, shown), _moved(True, shown)
    assert not same(loaded, before, after, helpers=(old, new))


_CALLS = "from bundle_helpers import join, PARTS, OTHERS, held\n"


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("join(x, y, by=1, width=4)", True),
        ("join(x, y, OTHERS)", False),
        ("join(x, y, {'separator': '-', 'width': 4})", False),
        ("join(x, y, by=1.0)", False),
        ("join(y, x)", False),
    ],
)
def test_passing_a_default_value_explicitly_is_equivalent(loaded: Loaded, use: str, expected: bool) -> None:
    """Passing a default value explicitly is equivalent, but passing an equal mutable object or a value of a different
    type is not.
    """
    assert (
        same(loaded, in_function("return join(x, y)", top=_CALLS), in_function(f"return {use}", top=_CALLS)) == expected
    )


@pytest.mark.parametrize("use", ["join(x, y, PARTS)", "join(x, y, options=PARTS)"])
def test_passing_the_default_object_itself_is_equivalent_for_importable_functions(named: Loaded, use: str) -> None:
    """Passing the default object itself is equivalent for a function that a worker finds by name; a function sent by
    value would hold a copy.
    """
    assert same(named, in_function("return join(x, y)", top=_CALLS), in_function(f"return {use}", top=_CALLS))


def test_how_a_function_reaches_a_worker_counts(tmp_path: Path) -> None:
    """A function sent by name differs from the same function sent by value, because a worker imports the module of the
    former, which may fail.
    """
    before, after = in_function("return x if y else 1"), in_function("if y:\n    return x\nreturn 1")
    found = [
        next(_loaded(tmp_path / name, by_value=by_value))(job)[1]
        for name, by_value, job in (("a", False, before), ("b", True, after), ("c", True, before))
    ]
    assert found[0] != found[1] == found[2] != ""


def test_an_omitted_argument_is_not_equivalent_if_the_default_changed(loaded: Loaded) -> None:
    """Omitting an argument is not equivalent to passing it if the parameter's default changed or the called function is
    decorated.
    """
    before, after = in_function("return join(x, y)", top=_CALLS), in_function("return join(x, y, by=1)", top=_CALLS)
    changed = HELPERS.replace("by=1", "by=2")
    assert not same(loaded, before, after, helpers=(HELPERS, changed))
    assert not same(loaded, after, before, helpers=(HELPERS, changed))
    decorated = HELPERS.replace("    def join", "    import functools\n    @functools.cache\n    def join")
    assert not same(loaded, before, after, helpers=(decorated, decorated))


def test_arguments_at_import_that_are_defaults_do_not_count(loaded: Loaded) -> None:
    """Default arguments that are passed explicitly in a call at import are ignored, and any other argument counts."""
    top = "def make(a, by=2):\n    def scale(x):\n        return x * a * by\n    return scale\nscale = make({})"
    use = "return scale(x)"
    before = in_function(use, top=top.format("1"))
    assert same(loaded, before, in_function(use, top=top.format("1, by=2")))
    assert same(loaded, before, in_function(use, top=top.format("1, 2")))
    assert not same(loaded, before, in_function(use, top=top.format("1, by=3")))
    assert not same(loaded, before, in_function(use, top=top.format("2")))


def test_both_possible_import_values_of_a_name_are_compared(named: Loaded) -> None:
    """Both values that a name may have at import count, because a worker that imports the module may get the other
    one.
    """
    top = "X = {}\nif not __name__.startswith('bundle'):\n    X = {}"
    before = in_function("return X", top=top.format(5, 6))
    assert not same(named, before, in_function("return X", top=top.format(5, 7)))
    first = "X = {}\nif __name__.startswith('bundle'):\n    X = 5"
    assert not same(named, in_function("return X", top=first.format(1)), in_function("return X", top=first.format(2)))


UNEQUAL = tomllib.loads((Path(__file__).parent / "unequal_rewritings.toml").read_text())


@pytest.mark.parametrize("case", UNEQUAL)
def test_pairs_that_only_resemble_each_other_are_never_proven_equal(loaded: Loaded, case: str) -> None:
    """Pairs that only resemble each other, such as a different order of evaluation or a table that other code iterates,
    are never proven equal.
    """
    before, after = UNEQUAL[case]["before"], UNEQUAL[case]["after"]
    helpers = f"{HELPERS}\n    def g(x):\n        return x\n"
    assert not same(loaded, before, after, helpers=(helpers, helpers))
