"""Python code of a column in the layouts of real packages: decorated, cached, in a package, found as a plugin. Pure.

``variant`` of such a stage names variants from those that VARIANTS lists for its form; all except CHANGING_VARIANTS
leave each row's value unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.fuzz.stages import Code

VARIANTS: Mapping[str, tuple[str, ...]] = {
    "wrapped": ("decorator-documented", "decorator-renamed", "decorator-removed", "decorator-adds"),
    "classed": ("decorator-documented", "decorator-renamed", "decorator-removed", "decorator-adds"),
    "cached": ("cache-larger", "cache-unbounded", "cache-removed", "future-annotations"),
    "package": ("import-relative", "import-module", "reexported", "rate-moved", "module-added", "future-annotations"),
    "plugins": ("plugin-added", "plugin-documented", "future-annotations", "plugin-replaced"),
}
CHANGING_VARIANTS = frozenset({"decorator-adds", "plugin-replaced"})
REWRITING_VARIANTS = frozenset(
    {"decorator-renamed", "decorator-removed", "cache-larger", "cache-unbounded", "cache-removed", "import-module"}
)
"""Variants in which different code runs and returns the same values: below state, a person may be asked about it."""

_FUTURE = "from __future__ import annotations\n\n"
_STEP = """\
{decorator}def step(a{int}, b{int}){result}:
    {doc}a = 0 if a is None else a
    b = 0 if b is None else b
    return {step}
"""
_WRAPPED = """\
import functools


def {decorator}(function):
    {doc}@functools.wraps(function)
    def wrapper(a, b):
        return function(a, b){more}

    return wrapper
"""
_CLASSED = """\
import functools


class {decorator}:
    {doc}def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, a, b):
        return self.function(a, b){more}
"""
_FINDING = """\
import importlib
import pkgutil

STEPS = {}

for found in pkgutil.iter_modules(__path__):
    module = importlib.import_module(f"{__name__}.{found.name}")
    STEPS[module.NAME] = module.step
"""


def layout_top(stage: Code) -> str:
    """Return the lines of the job file."""
    package = _package(stage)
    made = f'{stage.name}_of = F.udf({stage.uid}_step, "int")\n'
    match stage.form:
        case "package":
            module = package if "reexported" in stage.variant else f"{package}.steps"
            return f"from {module} import step as {stage.uid}_step\n\n{made}"
        case "plugins":
            steps = f"{stage.uid}_STEPS"
            return f'from {package} import STEPS as {steps}\n\n{stage.uid}_step = {steps}["net"]\n{made}'
        case _:
            calls = f"def {stage.uid}_step(a, b):\n    return {package}_step(a, b)\n"
            return f"from {package} import step as {package}_step\n\n\n{calls}\n\n{made}"


def layout_files(stage: Code) -> tuple[tuple[str, str], ...]:
    """Return the modules beside the job file."""
    package, variant = _package(stage), stage.variant
    future = _FUTURE if "future-annotations" in variant else ""
    match stage.form:
        case "package":
            return _package_files(stage, package, future)
        case "plugins":
            found = [(f"{package}/__init__.py", _FINDING), (f"{package}/net.py", future + _plugin(stage, "net"))]
            if "plugin-added" in variant:
                found.append((f"{package}/gross.py", _plugin(stage, "gross")))
            return tuple(found)
        case "cached":
            size = 256 if "cache-larger" in variant else 128
            line = "@functools.cache\n" if "cache-unbounded" in variant else f"@functools.lru_cache(maxsize={size})\n"
            line = "" if "cache-removed" in variant else line
            text = f"{future}import functools\n\nFACTOR = {stage.constant}\n\n\n{_step(stage, decorator=line)}"
            return ((f"{package}.py", text),)
        case _:
            return ((f"{package}.py", _decorated(stage)),)


def _package(stage: Code) -> str:
    return f"shop_{stage.uid}"


def _package_files(stage: Code, package: str, future: str) -> tuple[tuple[str, str], ...]:
    variant = stage.variant
    rate = f"FACTOR = {stage.constant}\n"
    head, name = f"from {package}.rates import FACTOR\n", "FACTOR"
    if "import-relative" in variant:
        head = "from .rates import FACTOR\n"
    if "import-module" in variant:
        head, name = f"import {package}.rates as rates\n", "rates.FACTOR"
    if "rate-moved" in variant:
        head = rate
    found = [
        (f"{package}/__init__.py", f"from {package}.steps import step\n" if "reexported" in variant else ""),
        (f"{package}/steps.py", f"{future}{head}\n\n{_step(stage, name)}"),
    ]
    if "rate-moved" not in variant:
        found.append((f"{package}/rates.py", rate))
    if "module-added" in variant:
        found.append((f"{package}/labels.py", 'UNIT = "cent"\n'))
    return tuple(found)


def _plugin(stage: Code, name: str) -> str:
    constant = stage.constant + (name == "gross") + ("plugin-replaced" in stage.variant)
    doc = '"""A step of the shop."""\n\n' if "plugin-documented" in stage.variant else ""
    return f'{doc}NAME = "{name}"\nFACTOR = {constant}\n\n\n{_step(stage)}'


def _decorated(stage: Code) -> str:
    variant = stage.variant
    classed = stage.form == "classed"
    name = ("Counted" if classed else "counted") + ("Calls" if classed else "_calls") * ("decorator-renamed" in variant)
    doc = '"""Calls of a step."""\n\n    ' if "decorator-documented" in variant else ""
    more = " + 1" if "decorator-adds" in variant else ""
    text = (_CLASSED if classed else _WRAPPED).format(decorator=name, doc=doc, more=more)
    line = "" if "decorator-removed" in variant else f"@{name}\n"
    return f"{text}\n\nFACTOR = {stage.constant}\n\n\n{_step(stage, decorator=line)}"


def _step(stage: Code, constant: str = "FACTOR", decorator: str = "") -> str:
    typed = stage.wording == "typed" or "future-annotations" in stage.variant
    return _STEP.format(
        decorator=decorator,
        int=": int | None" if typed else "",
        result=" -> int" if typed else "",
        doc='"""What a row adds."""\n    ' if stage.wording == "documented" else "",
        step=stage.step.replace("factor", constant),
    )
