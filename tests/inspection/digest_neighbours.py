"""Small bundles with two kinds of edits: edits that do not change what ``f`` does, and similar ones that do."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from tests.inspection.digest_cases import Hiding


class Edit(NamedTuple):
    """The text before and after an edit, and the file that contains it."""

    before: str
    after: str
    file: str = "job.py"


class Neighbours(NamedTuple):
    """A bundle, the edits that must leave its digest unchanged, and the edits that must change it."""

    files: dict[str, str]
    harmless: tuple[Edit, ...]
    dangerous: tuple[Edit, ...]


def _files(job: str, **others: str) -> dict[str, str]:
    return {"job.py": textwrap.dedent(job), **{f"{name}.py": textwrap.dedent(text) for name, text in others.items()}}


_FUTURE = Edit("# top", "from __future__ import annotations")


def _cached(decorator: str, use: str = "rate(x)") -> str:
    return f"""
        # top
        import functools
        {decorator}
        def rate(x):
            "Doubles it."
            # note
            return x * 2
        def other(x):
            "Not used."
            return 1
        def f(x):
            return {use}
        """


def _memo(call: str = "x = x", use: str = "rate(x)") -> str:
    return f"""
        import functools, logging
        log = logging.getLogger(__name__)
        class memo:
            "Keeps results."
            def __init__(self, fn):
                functools.update_wrapper(self, fn)
                self.fn = fn
                self.kept = {{}}
            def __call__(self, x):
                {call}
                if x not in self.kept:
                    self.kept[x] = self.fn(x)
                return self.kept[x]
        @memo
        def rate(x):
            "Doubles it."
            # note
            return x * 2
        def other(x):
            "Not used."
            return 1
        def f(x):
            return {use}
        """


def _held(use: str) -> str:
    return f"""
        import functools
        import numpy as np
        def scale(x, n):
            "Doubles it."
            return x * n
        double = functools.update_wrapper(functools.partial(scale, n=2), scale)
        many = np.vectorize(scale)
        def f(x):
            return {use}
        """


def _hinted(use: str) -> str:
    return f"""
        # top
        import dataclasses, functools
        from typing import NamedTuple, Optional
        @dataclasses.dataclass(frozen=True)
        class Rate:
            eu: int = 2
            us: Optional[int] = None
            def of(self, x: int) -> "Rate":
                return x * self.eu
        class Plain:
            eu: int = 2
        class Pair(NamedTuple):
            a: int
            b: str = "x"
        def rate(x: float) -> float:
            return x * 2
        def f(x: float) -> float:
            def inner(y: int) -> list[int] | None:
                return y
            {use}
        """


_DECORATED = """
    # top
    import functools
    from collections.abc import Callable
    from typing import Any, Literal, TypeVar
    R = TypeVar("R")
    def retried(times: int = 3) -> Callable[[Callable[..., R]], Callable[..., R]]:
        def decorate(fn: Callable[..., R]) -> Callable[..., R]:
            @functools.wraps(fn)
            def wrapper(*args: Any, how: Literal["a", "b"] = "a", **kwargs: "Any") -> R | None:
                for number in range(times):
                    try:
                        return fn(*args, **kwargs)
                    except ValueError:
                        def again(x: int, y: dict[str, list[int]]) -> None:
                            return fn
                        if number:
                            again(number, {})
            return wrapper
        return decorate
    @retried(2)
    def rate(x: float) -> "float":
        return x * 2
    def f(x):
        return rate(x)
    """

_RULES = {
    "rules/__init__": """
        import importlib, pkgutil
        RULES = []
        def register(rule):
            RULES.append(rule)
            return rule
        for found in pkgutil.iter_modules(__path__, __name__ + "."):
            importlib.import_module(found.name)
        """,
    "rules/double": """
        from rules import register
        @register
        def double(x):
            "Doubles it."
            # note
            return x * 2
        """,
}
_USES_RULES = """
    # top
    import rules
    def other():
        "Not used."
        return 1
    def f(x):
        for rule in rules.RULES:
            x = rule(x)
        return x
    """


def _inspecting(more: str = "") -> str:
    return f"""
        import inspect
        import rules
        def other():
            "Not used."
            return 1
        def f(x):
            {more}
            for name, rule in inspect.getmembers(rules, inspect.isfunction):
                x = rule(x)
            return x
        """


_RULES_FILE = {"rules": 'def double(x):\n    "Doubles it."\n    # note\n    return x * 2\n'}
_SETTINGS = """
    import json
    from dataclasses import dataclass
    from pathlib import Path
    @dataclass(frozen=True)
    class Settings:
        "All of them."
        rate: int
    def load():
        "Reads them."
        # note
        return Settings(**json.loads((Path(__file__).parent / "settings.json").read_text()))
    """

NEIGHBOURS: dict[str, Neighbours] = {
    **{
        decorator: Neighbours(
            _files(_cached(decorator)),
            (
                Edit("Doubles it.", "Twice of it."),
                Edit("# note", "# another"),
                Edit("Not used.", "Unused."),
                Edit("return 1", "return 2"),
            ),
            (Edit("x * 2", "x * 3"),),
        )
        for decorator in ("@functools.lru_cache(maxsize=64)", "@functools.cache")
    },
    **{
        f"a cached function, {name} read": Neighbours(
            _files(_cached("@functools.cache", f"rate(x), {use}")),
            harmless,
            (Edit("Doubles it.", "Twice of it."), Edit("x * 2", "x * 3")),
        )
        for name, use, harmless in (
            ("docstring", "rate.__doc__", ()),
            ("vars", "sorted(vars(rate).items())", (Edit("# note", "# another"),)),
            ("__dict__", "sorted(rate.__dict__.items())", (Edit("# note", "# another"),)),
        )
    },
    "a class as decorator": Neighbours(
        _files(_memo()),
        (
            Edit("Doubles it.", "Twice of it."),
            Edit("# note", "# another"),
            Edit("Not used.", "Unused."),
            Edit("Keeps results.", "Remembers."),
            Edit("return 1", "return 2"),
        ),
        (Edit("x * 2", "x * 3"), Edit("return self.kept[x]", "return self.kept[x] + 1")),
    ),
    "a class as decorator, docstring read": Neighbours(
        _files(_memo(use="rate(x), rate.__doc__")), (), (Edit("Doubles it.", "Twice of it."),)
    ),
    "a class as decorator, which reads all that it has": Neighbours(
        _files(_memo("x = x + sum(len(str(held)) for held in self.__dict__.values())")),
        (Edit("# note", "# another"),),
        (Edit("Doubles it.", "Twice of it."),),
    ),
    "a class as decorator, which reads its variables": Neighbours(
        _files(_memo("x = x + sum(len(str(held)) for held in vars(self).values())")),
        (Edit("# note", "# another"),),
        (Edit("Doubles it.", "Twice of it."),),
    ),
    "a partial with its function's name": Neighbours(
        _files(_held("double(x)")), (Edit("Doubles it.", "Twice of it."),), (Edit("x * n", "x + n"), Edit("n=2", "n=3"))
    ),
    "numpy.vectorize": Neighbours(
        _files(_held("many(x, 2)")), (Edit("Doubles it.", "Twice of it."),), (Edit("x * n", "x + n"),)
    ),
    "numpy.vectorize, docstring read": Neighbours(
        _files(_held("many(x, 2), many.__doc__")), (), (Edit("Doubles it.", "Twice of it."),)
    ),
    "annotations of functions": Neighbours(
        _files(_hinted("return rate(inner(x))")),
        (_FUTURE, Edit("x: float", "x: int")),
        (Edit("x * 2", "x * 3"), Edit("y: int", "y: str")),
    ),
    "annotations of a dataclass": Neighbours(
        _files(_hinted("return Rate(3).of(x)")),
        (_FUTURE,),
        (Edit("eu: int = 2\n    us", "eu: float = 2\n    us"), Edit("self.eu", "self.us")),
    ),
    "annotations of a class": Neighbours(
        _files(_hinted("return Plain().eu * x")),
        (_FUTURE,),
        (Edit("eu: int = 2\nclass Pair", "eu: int = 3\nclass Pair"),),
    ),
    "annotations of a named tuple": Neighbours(
        _files(_hinted("return Pair(1).a")), (_FUTURE,), (Edit("a: int", "a: float"),)
    ),
    "annotations that are read": Neighbours(_files(_hinted("return rate.__annotations__")), (), (_FUTURE,)),
    "types of fields that are read": Neighbours(
        _files(_hinted("return [field.type(x) for field in dataclasses.fields(Rate)]")), (), (_FUTURE,)
    ),
    "annotations in a decorator": Neighbours(
        _files(_DECORATED),
        (_FUTURE,),
        (
            Edit("if number:", "if not number:"),
            Edit("except ValueError", "except KeyError"),
            Edit('how: Literal["a", "b"] = "a"', 'how: Literal["a", "b"] = "b"'),
        ),
    ),
    "modules found by pkgutil": Neighbours(
        _files(_USES_RULES, **_RULES),
        (
            Edit("# note", "# another", "rules/double.py"),
            Edit("Doubles it.", "Twice of it.", "rules/double.py"),
            Edit("# top", "# other"),
            Edit("Not used.", "Unused."),
        ),
        (Edit("x * 2", "x * 3", "rules/double.py"), Edit("@register\n", "", "rules/double.py")),
    ),
    "functions found by inspect": Neighbours(
        _files(_inspecting(), **_RULES_FILE),
        (
            Edit("# note", "# another", "rules.py"),
            Edit("Doubles it.", "Twice of it.", "rules.py"),
            Edit("Not used.", "Unused."),
        ),
        (
            Edit("x * 2", "x * 3", "rules.py"),
            Edit("def double", "def add(x):\n    return x + 1\ndef double", "rules.py"),
        ),
    ),
    "source read by inspect": Neighbours(
        _files(_inspecting("x += len(inspect.getsource(other))"), **_RULES_FILE),
        (),
        (Edit("Not used.", "Unused."), Edit("# note", "# another", "rules.py")),
    ),
    "settings that the job loads": Neighbours(
        {
            **_files(
                "# top\nfrom settings import load\nSETTINGS = load()\ndef f(x):\n    return x * SETTINGS.rate\n",
                settings=_SETTINGS,
            ),
            "settings.json": '{"rate": 2}',
        },
        (
            Edit("# note", "# another", "settings.py"),
            Edit("Reads them.", "Loads them.", "settings.py"),
            Edit("All of them.", "Settings.", "settings.py"),
            Edit("# top", "# other"),
        ),
        (Edit("2", "3", "settings.json"), Edit("rate: int", "rate: float", "settings.py")),
    ),
}


class Edited(NamedTuple):
    """A bundle's name and one edit of that bundle."""

    bundle: str
    hiding: Hiding

    def changed(self) -> dict[str, str]:
        """Return the bundle after the edit."""
        return self.hiding.changed()


def _edited(which: str) -> dict[str, Edited]:
    return {
        f"{name}: {edit.before} -> {edit.after}": Edited(name, Hiding(each.files, edit.file, edit.before, edit.after))
        for name, each in NEIGHBOURS.items()
        for edit in getattr(each, which)
    }


LEAVE_THE_DIGEST = _edited("harmless")
CHANGE_THE_DIGEST = _edited("dangerous")
