"""Tests which side effects the import of a job's module has besides assigning its names."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

from streamkeeper.inspection.import_effects import ImportEffects

WRAPS = """
import functools

def counted(function):
    "Counts."
    @functools.wraps(function)
    def wrapper(*given, **more):
        return function(*given, **more)
    return wrapper

@counted
def step(x):
    return x
"""
HOLDS = """
import functools

class Counted:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)

@Counted
def step(x):
    return x
"""

RENAMED = """
from steps_of_job import step as once
from steps_of_job import once as twice
"""
OUTER = """
import functools
from functools import wraps

def outer(wraps):
    def inner(function):
        @wraps(function)
        def wrapper(x):
            return function(x)
        return wrapper
    return inner

@outer
def decorator(function):
    return print

@decorator
def step(x):
    return x
"""


def has_effects(tmp_path: Path, text: str, loaded_as: str = "") -> bool:
    """Return whether importing a package of the job with this text has side effects; ``loaded_as``: the text loaded
    instead.
    """
    file = tmp_path / "steps_of_job" / "__init__.py"
    file.parent.mkdir()
    (file.parent / "net.py").write_text('NAME = "net"\n\n\ndef step(x):\n    return x\n')
    file.write_text(loaded_as or text)
    name = file.parent.name
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(file.parent)])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        return ImportEffects(vars(module), lambda found: found is module).compiled(ast.parse(text)) is not None
    finally:
        for loaded in [each for each in sys.modules if each.partition(".")[0] == name]:
            del sys.modules[loaded]


@pytest.mark.parametrize(
    "text",
    [
        WRAPS,
        HOLDS,
        WRAPS.replace("import functools", "from functools import wraps").replace("functools.wraps", "wraps"),
        WRAPS.replace("    @functools.wraps(function)\n", ""),
        WRAPS.replace("(*given, **more):", "(x: int, y: int = 2) -> int:"),
        WRAPS.replace("    return wrapper", "    return function"),
        HOLDS.replace("self.calls = 0", "self.kept = {}"),
        HOLDS.replace("@Counted\n", "@Counted\n@Counted\n"),
        WRAPS + RENAMED + "\ndef use(x):\n    return twice(x)\n",
    ],
)
def test_a_decorator_that_only_wraps_its_function_is_no_effect(tmp_path: Path, text: str) -> None:
    """A decorator that only wraps its function is no import effect, because a change of it reaches only the functions
    that it decorates.
    """
    assert not has_effects(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        WRAPS.replace('    "Counts."\n', '    "Counts."\n    KNOWN.append(function)\n').replace(
            "def c", "KNOWN = []\ndef c"
        ),
        WRAPS.replace('    "Counts."\n', "    functools.known_step = function\n"),
        WRAPS.replace('    "Counts."\n', "    global step_count\n    step_count = 1\n"),
        WRAPS.replace("    return wrapper", "    return print(wrapper)"),
        WRAPS.replace("    return wrapper", "    return KNOWN").replace("def c", "KNOWN = []\ndef c"),
        WRAPS.replace("wrapper(*given, **more)", "wrapper(x=print(1))").replace("*given, **more", "x"),
        WRAPS.replace("wrapper(*given, **more)", "wrapper(x: print(1))").replace("*given, **more", "x"),
        WRAPS.replace("functools.wraps(function)", "functools.wraps(print)"),
        WRAPS.replace("functools.wraps(function)", "functools.wraps(function, updated=print('a') or ())"),
        WRAPS.replace("functools.wraps(function)", "functools.lru_cache(function)"),
        WRAPS.replace("(function):", "(function, functools=__import__('types').SimpleNamespace(wraps=lambda f: f)):"),
        WRAPS.replace(
            "def counted(function):", "def other(function):\n    return function\n\n@other\ndef counted(function):"
        ),
        "def counted():\n    return lambda function: function\n\n@counted()\ndef step(x):\n    return x\n",
        WRAPS + "\ndef counted(function):\n    return function\n",
        WRAPS + "\ncounted.seen = True\n",
        HOLDS.replace("self.calls = 0", "self.calls = print(1)"),
        HOLDS.replace("self.calls = 0", "Counted.last = self"),
        HOLDS.replace("self.calls = 0", "print(function)"),
        HOLDS.replace("self.calls = 0", "self.function.seen = function"),
        HOLDS.replace("class Counted:", "class Base:\n    pass\n\nclass Counted(Base):"),
        HOLDS.replace("class Counted:", "class Meta(type):\n    pass\n\nclass Counted(metaclass=Meta):"),
        HOLDS.replace("class Counted:", "class Counted:\n    known = []\n"),
        HOLDS.replace(
            "class Counted:", "class Counted:\n    def __setattr__(self, name, value):\n        print(name)\n"
        ),
        HOLDS.replace(
            "class Counted:", "class Counted:\n    def __new__(cls, f):\n        return object.__new__(cls)\n"
        ),
        HOLDS.replace("class Counted:", "class Counted:\n    @property\n    def name(self):\n        return 1\n"),
        HOLDS.replace(
            "def __init__(self, function):", "def __init__(self, *function):\n        function = function[0]"
        ),
        HOLDS.replace("self.calls = 0", "self.__class__ = Other").replace(
            "class C", "class Other:\n    pass\n\nclass C"
        ),
        HOLDS.replace("self.calls = 0", "self.__dict__ = KEPT").replace("class C", "KEPT = {}\n\nclass C"),
        HOLDS.replace("class Counted:", "class Counted:\n    @property\n    def __dict__(self):\n        return {}\n"),
        HOLDS.replace("class Counted:", "class Counted:\n    __doc__ = property(print, print)\n"),
        "def wraps(f):\n    return lambda g: g\n"
        + WRAPS.replace("functools.wraps", "wraps")
        + "\nfrom functools import wraps\n",
        "class Same:\n    def __eq__(self, other):\n        return True\n    def __call__(self, f):\n        return f\n"
        + WRAPS.replace("functools.wraps", "wraps").replace("import functools", "wraps = Same()"),
        OUTER,
        WRAPS.replace("import functools", "import functools\nfrom string import *"),
        WRAPS.replace("@counted\ndef step(x):", "@counted\nclass step:").replace("return x", "pass"),
        WRAPS.replace("def step(x):\n", "def __getattr__(x):\n"),
        WRAPS + "\nKEPT = [step]\nKEPT[0](1)\n",
        WRAPS + "\nKEPT = sorted([1], key=step)\n",
        WRAPS + RENAMED + "\nKEPT = sorted([1], key=once)\n",
        WRAPS + RENAMED + "\nKEPT = sorted([1], key=twice)\n",
        WRAPS + "\ndef other(x=step(1)):\n    return x\n",
        WRAPS.replace(
            "@counted\ndef step(x):\n    return x\n",
            "class Meta(type):\n    pass\n\n"
            "class Steps(metaclass=Meta):\n    @counted\n    def step(self):\n        return 1\n",
        ),
        "class App:\n    def on(self, f):\n        return f\n\napp = App()\n\n@app.on\ndef step(x):\n    return x\n",
        "@(lambda f: f)\ndef step(x):\n    return x\n",
    ],
)
def test_any_other_decorator_of_the_job_is_an_effect(tmp_path: Path, text: str) -> None:
    """Negative control: a decorator that may register the function, patch a library or keep its argument is found to be
    an import effect.
    """
    assert has_effects(tmp_path, text)


FINDS = """
import importlib
import pkgutil

STEPS = {}

for found in pkgutil.iter_modules(__path__):
    module = importlib.import_module(f"{__name__}.{found.name}")
    STEPS[module.NAME] = module.step
"""


def test_a_package_that_imports_its_modules_has_no_effect_of_its_own(tmp_path: Path) -> None:
    """A package that imports all its modules in a loop has no import effect of its own, because their effects are found
    in the loaded modules.
    """
    assert not has_effects(tmp_path, FINDS)


@pytest.mark.parametrize(
    "text",
    [
        FINDS.replace('f"{__name__}.{found.name}"', '"json"'),
        FINDS.replace('f"{__name__}.{found.name}"', 'f"{found.name}"'),
        FINDS.replace('f"{__name__}.{found.name}"', 'f"{__name__}{found.name}"'),
        FINDS.replace("STEPS = {}", "__path__ = list(__path__)\nSTEPS = {}"),
        FINDS.replace("(__path__)", "(None)"),
        FINDS.replace("    STEPS[module.NAME] = module.step", "    pkgutil.known = module"),
        FINDS.replace("    STEPS[module.NAME] = module.step", "    pkgutil.extend_path(__path__, __name__)"),
        FINDS.replace("found.name}", "importlib.invalidate_caches() or found.name}"),
        FINDS.replace("    STEPS[module.NAME] = module.step", "    module.setup()"),
        FINDS.replace("    STEPS[module.NAME] = module.step", "    STEPS[module.NAME] = module.step()"),
        FINDS.replace("    STEPS[module.NAME] = module.step", "    module.HELD.floor = module.step"),
        FINDS.replace("pkgutil.iter_modules(__path__)", "reversed(list(pkgutil.iter_modules(__path__)))"),
        FINDS.replace("    module = ", "    if found.name in STEPS:\n        continue\n    module = "),
        "try:\n" + FINDS.strip().replace("\n", "\n    ").replace("import", "    import", 1) + "\nfinally:\n    pass\n",
    ],
)
def test_any_other_import_by_a_computed_name_is_an_effect(tmp_path: Path, text: str) -> None:
    """Negative control: an import by a computed name that may be any module, or a loop that does more than import, is
    found to be an import effect.
    """
    assert has_effects(tmp_path, text, loaded_as=FINDS)


def test_a_found_module_that_is_not_loaded_is_an_effect(tmp_path: Path) -> None:
    """A module that the import loop finds but that is not loaded counts as an import effect, because its own effects
    cannot be examined.
    """
    assert has_effects(tmp_path, FINDS, loaded_as="import importlib\nimport pkgutil\nSTEPS = {}\n")
