"""Small bundles that show how a change can hide from a function's digest, and forms of code whose digest must not
change.

The entry of each is ``f`` in ``job.py``; ``make()`` builds one that is pickled by value.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple


class Hiding(NamedTuple):
    """A bundle and the single change in it: file, text before, text after."""

    files: dict[str, str]
    file: str
    before: str
    after: str

    def changed(self) -> dict[str, str]:
        """Return the bundle after the change."""
        text = self.files[self.file]
        assert self.before in text, (self.file, self.before)
        return {**self.files, self.file: text.replace(self.before, self.after)}


HELPERS = "RATE = 2\n\ndef rate(x):\n    return x * RATE\n"


def _with(file: str, before: str, after: str, job: str, others: dict[str, str]) -> Hiding:
    files = {"job.py": job, **others}
    return Hiding({name: textwrap.dedent(text) for name, text in files.items()}, file, before, after)


def _job(before: str, after: str, job: str) -> Hiding:
    return _with("job.py", before, after, job, {})


def _pkg(init: str = "", rules: str = HELPERS, **more: str) -> dict[str, str]:
    return {"pkg/__init__.py": init, "pkg/rules.py": rules, **more}


_HELPER = {"helpers.py": HELPERS}
_DATA = {"rates.json": '{"eu": 2}'}

HIDINGS: dict[str, Hiding] = {
    # What says it is somebody else's
    "a cache's wrapper that is pickled by its name": _with(
        "helpers.py",
        "x * 2",
        "x * 3",
        """
        from helpers import g
        def f(x):
            return g(x)
        """,
        {
            "helpers.py": (
                "import cachetools\n\n@cachetools.cached(cachetools.TTLCache(9, 60))\ndef g(x):\n    return x * 2\n"
            ),
        },
    ),
    "a class that the types module made": _with(
        "helpers.py",
        "eu=2",
        "eu=3",
        """
        from helpers import R
        def f(x):
            return x * R.eu
        """,
        {"helpers.py": "import types\n\nR = types.new_class('R', (), {}, lambda names: names.update(eu=2))\n"},
    ),
    "a class registered with an abstract one elsewhere": _with(
        "reg.py",
        "(int)",
        "(str)",
        """
        import reg
        from base import Num
        def f(x):
            return 1 if isinstance(x, Num) else 0
        """,
        {
            "base.py": "import abc\n\nclass Num(abc.ABC):\n    pass\n",
            "reg.py": "from base import Num\n\nNum.register(int)\n",
        },
    ),
    # Data that a module loads
    "json at import, open": _with(
        "rates.json",
        "2",
        "3",
        """
        import json, os
        with open(os.path.join(os.path.dirname(__file__), "rates.json")) as file:
            RATES = json.load(file)
        def f(x):
            return x * RATES["eu"]
        """,
        _DATA,
    ),
    "json at import, in a helper": _with(
        "rates.json",
        "2",
        "3",
        """
        from helpers import rate
        def f(x):
            return rate(x)
        """,
        {
            **_DATA,
            "helpers.py": """
            import json
            from pathlib import Path
            RATES = json.loads((Path(__file__).parent / "rates.json").read_text())
            def rate(x):
                return x * RATES["eu"]
            """,
        },
    ),
    "yaml at import": _with(
        "rates.yaml",
        "2",
        "3",
        """
        import yaml
        from pathlib import Path
        RATES = yaml.safe_load(Path(__file__).with_name("rates.yaml").read_text())
        def f(x):
            return x * RATES["eu"]
        """,
        {"rates.yaml": "eu: 2\n"},
    ),
    "pkgutil.get_data at import": _with(
        "pkg/rates.json",
        "2",
        "3",
        """
        from pkg.rules import rate
        def f(x):
            return rate(x)
        """,
        _pkg(
            rules="""
            import json, pkgutil
            RATES = json.loads(pkgutil.get_data("pkg", "rates.json"))
            def rate(x):
                return x * RATES["eu"]
            """,
            **{"pkg/rates.json": '{"eu": 2}'},
        ),
    ),
    "importlib.resources in the function": _with(
        "pkg/rates.json",
        "2",
        "3",
        """
        import json
        from importlib import resources
        import pkg
        def f(x):
            return x * json.loads(resources.files("pkg").joinpath("rates.json").read_text())["eu"]
        """,
        _pkg(**{"pkg/rates.json": '{"eu": 2}'}),
    ),
    "pkgutil in the function": _with(
        "pkg/rates.json",
        "2",
        "3",
        """
        import json, pkgutil
        def f(x):
            return x * json.loads(pkgutil.get_data("pkg", "rates.json"))["eu"]
        """,
        _pkg(**{"pkg/rates.json": '{"eu": 2}'}),
    ),
    "open in the function": _with(
        "rates.json",
        "2",
        "3",
        """
        import json
        def f(x):
            with open(__file__.replace("job.py", "rates.json")) as file:
                return x * json.load(file)["eu"]
        """,
        _DATA,
    ),
    "Path global read in the function": _with(
        "rates.json",
        "2",
        "3",
        """
        import json
        from pathlib import Path
        HERE = Path(__file__).parent
        def f(x):
            return x * json.loads((HERE / "rates.json").read_text())["eu"]
        """,
        _DATA,
    ),
    "pandas.read_csv in the function": _with(
        "rates.csv",
        "2",
        "3",
        """
        import os
        import pandas as pd
        HERE = os.path.dirname(__file__)
        def f(x):
            return x * pd.read_csv(HERE + "/rates.csv").eu[0]
        """,
        {"rates.csv": "eu\n2\n"},
    ),
    "numpy imported in the function": _with(
        "rates.txt",
        "2",
        "3",
        """
        import os
        HERE = os.path.dirname(__file__)
        def f(x):
            import numpy
            return x * numpy.loadtxt(HERE + "/rates.txt")
        """,
        {"rates.txt": "2\n"},
    ),
    "configparser at import": _with(
        "rates.ini",
        "2",
        "3",
        """
        import configparser, os
        CONFIG = configparser.ConfigParser()
        CONFIG.read(os.path.join(os.path.dirname(__file__), "rates.ini"))
        def f(x):
            return x * CONFIG.getint("rates", "eu")
        """,
        {"rates.ini": "[rates]\neu = 2\n"},
    ),
    "pickle in the function": _with(
        "rates.pickle",
        "2",
        "3",
        """
        import os, pickle
        HERE = os.path.dirname(__file__)
        def f(x):
            with open(HERE + "/rates.pickle", "rb") as file:
                return x * pickle.load(file)
        """,
        {"rates.pickle": "I2\n."},
    ),
    "sqlite in the function": _with(
        "rates.sql",
        "2",
        "3",
        """
        import os, sqlite3
        from pathlib import PurePath
        HERE = os.path.dirname(__file__)
        def f(x):
            return sqlite3.connect(HERE + "/rates.sql")
        """,
        {"rates.sql": "2"},
    ),
    "cached reader": _with(
        "rates.json",
        "2",
        "3",
        """
        import functools, json, os
        @functools.lru_cache(maxsize=None)
        def rates():
            with open(os.path.dirname(__file__) + "/rates.json") as file:
                return json.load(file)
        def f(x):
            return x * rates()["eu"]
        """,
        _DATA,
    ),
    "lines of a file as a set": _with(
        "words.txt",
        "two",
        "three",
        """
        from pathlib import Path
        WORDS = frozenset(Path(__file__).with_name("words.txt").read_text().split())
        def f(x):
            return x in WORDS
        """,
        {"words.txt": "one two\n"},
    ),
    # Modules that are found late
    "import_module with a constant": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        import importlib
        def f(x):
            return importlib.import_module("pkg.rules").rate(x)
        """,
        _pkg(),
    ),
    "import_module with a computed name": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        from importlib import import_module
        NAMES = ["rules"]
        def f(x):
            return [import_module("pkg." + each).rate(x) for each in NAMES]
        """,
        _pkg(),
    ),
    "import_module at import": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        import importlib
        rules = importlib.import_module("pkg." + "rules")
        def f(x):
            return rules.rate(x)
        """,
        _pkg(),
    ),
    "__import__": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            return __import__("helpers").rate(x)
        """,
        _HELPER,
    ),
    "importlib imported in the function": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            import importlib
            return importlib.import_module("helpers").rate(x)
        """,
        _HELPER,
    ),
    "submodule imported in the function": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            import pkg.rules
            return pkg.rules.rate(x)
        """,
        _pkg(),
    ),
    "from package import module, in the function": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            from pkg import rules
            return rules.rate(x)
        """,
        _pkg(),
    ),
    "relative import in a function": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        from pkg.work import f
        """,
        _pkg(**{"pkg/work.py": "def f(x):\n    from . import rules\n    return rules.rate(x)\n"}),
    ),
    "what a lazily imported module imports": _with(
        "pkg/deep.py",
        "DEEP = 2",
        "DEEP = 3",
        """
        def f(x):
            from pkg.rules import rate
            return rate(x)
        """,
        _pkg(rules="from .deep import DEEP\n\ndef rate(x):\n    return x * DEEP\n", **{"pkg/deep.py": "DEEP = 2\n"}),
    ),
    "data that a lazily imported module reads": _with(
        "pkg/rates.json",
        "2",
        "3",
        """
        def f(x):
            from pkg.rules import rate
            return rate(x)
        """,
        _pkg(
            rules="""
            import json
            from pathlib import Path
            RATES = json.loads(Path(__file__).with_name("rates.json").read_text())
            def rate(x):
                return x * RATES["eu"]
            """,
            **{"pkg/rates.json": '{"eu": 2}'},
        ),
    ),
    "__init__ of a lazily imported package": _with(
        "pkg/__init__.py",
        "2",
        "3",
        """
        def f(x):
            from pkg import DEFAULT
            return x * DEFAULT
        """,
        _pkg(init="DEFAULT = 2\n"),
    ),
    "namespace package": _with(
        "space/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        from space import rules
        def f(x):
            return rules.rate(x)
        """,
        {"space/rules.py": HELPERS},
    ),
    "namespace package, in the function": _with(
        "space/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            from space import rules
            return rules.rate(x)
        """,
        {"space/rules.py": HELPERS},
    ),
    "a folder put on sys.path": _with(
        "vendor/tariff.py",
        "RATE = 2",
        "RATE = 3",
        """
        import os, sys
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "vendor"))
        def f(x):
            import tariff
            return tariff.rate(x)
        """,
        {"vendor/tariff.py": HELPERS},
    ),
    "runpy": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import os, runpy
        HERE = os.path.dirname(__file__)
        def f(x):
            return runpy.run_path(HERE + "/helpers.py")["rate"](x)
        """,
        _HELPER,
    ),
    "spec_from_file_location": _with(
        "plugin.txt",
        "RATE = 2",
        "RATE = 3",
        """
        from importlib import machinery, util
        import os
        PLACE = os.path.dirname(__file__) + "/plugin.txt"
        def f(x):
            loader = machinery.SourceFileLoader("plugin", PLACE)
            module = util.module_from_spec(util.spec_from_loader("plugin", loader))
            loader.exec_module(module)
            return module.rate(x)
        """,
        {"plugin.txt": HELPERS},
    ),
    "script in another process": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import subprocess, sys
        def f(x):
            return subprocess.run([sys.executable, "-m", "helpers", x])
        """,
        _HELPER,
    ),
    "sys.modules": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import sys
        import helpers
        def f(x):
            return sys.modules["hel" + "pers"].rate(x)
        """,
        _HELPER,
    ),
    "pickled by name": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import pickle
        def f(x):
            return pickle.loads(b"chelpers\\nrate\\n.")(x)
        """,
        _HELPER,
    ),
    "module without source": _with(
        "tariff.pyc.b64",
        "=2",
        "=3",
        """
        import base64, os, sys, types
        text = open(os.path.dirname(__file__) + "/tariff.pyc.b64").read()
        tariff = types.ModuleType("tariff")
        exec(text, vars(tariff))
        def f(x):
            return x * tariff.RATE
        """,
        {"tariff.pyc.b64": "RATE =2\n"},
    ),
    # Modules and names
    "attribute of a nested module": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        import pkg.rules
        def f(x):
            return x * pkg.rules.RATE
        """,
        _pkg(),
    ),
    "constant in a package's __init__": _with(
        "pkg/__init__.py",
        "2",
        "3",
        """
        import pkg
        def f(x):
            return x * pkg.DEFAULT
        """,
        _pkg(init="DEFAULT = 2\n"),
    ),
    "star import": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        from helpers import *
        def f(x):
            return rate(x)
        """,
        _HELPER,
    ),
    "getattr with a constant": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import helpers
        def f(x):
            return getattr(helpers, "rate")(x)
        """,
        _HELPER,
    ),
    "module under another name in the function": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import helpers
        def f(x):
            other = helpers
            return other.rate(x)
        """,
        _HELPER,
    ),
    "module in a list": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import helpers
        STEPS = [helpers]
        def f(x):
            return [each.rate(x) for each in STEPS]
        """,
        _HELPER,
    ),
    "attrgetter on a module": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import operator
        import helpers
        def f(x):
            return operator.attrgetter("RATE")(helpers) * x
        """,
        _HELPER,
    ),
    "module's __getattr__": _with(
        "helpers.py",
        "return 2",
        "return 3",
        """
        import helpers
        def f(x):
            return x * helpers.LAZY
        """,
        {"helpers.py": "def __getattr__(name):\n    return 2\n"},
    ),
    "eval of a constant": _job(
        "RATE = 2",
        "RATE = 3",
        """
        RATE = 2
        def f(x):
            return eval("x * RATE", globals(), {"x": x})
        """,
    ),
    "exec of a constant": _job(
        "RATE = 2",
        "RATE = 3",
        """
        RATE = 2
        def f(x):
            exec("global Y; Y = RATE")
            return x * Y
        """,
    ),
    "globals()": _job(
        "RATE = 2",
        "RATE = 3",
        """
        RATE = 2
        def f(x):
            return x * globals()["RA" + "TE"]
        """,
    ),
    "a function's globals": _job(
        "RATE = 2",
        "RATE = 3",
        """
        RATE = 2
        def f(x):
            return x * f.__globals__["RA" + "TE"]
        """,
    ),
    "a global rebound at import": _job(
        "RATE += 1",
        "RATE += 2",
        """
        RATE = 2
        for each in range(2):
            RATE += 1
        def f(x):
            return x * RATE
        """,
    ),
    "a global set by a function at import": _job(
        "start(2)",
        "start(3)",
        """
        def start(rate):
            global RATE
            RATE = rate
        start(2)
        def f(x):
            return x * RATE
        """,
    ),
    "a global that the driver overwrites": _job(
        'RATES = {"eu": 2}',
        'RATES = {"eu": 3}',
        """
        RATES = {"eu": 2}
        def f(x):
            return x * RATES["eu"]
        def drive():
            RATES["eu"] = 9
        """,
    ),
    "a global set by whoever comes later": _job(
        "RATE = 2",
        "RATE = 3",
        """
        def start():
            global RATE
            RATE = 2
        def f(x):
            return x * RATE
        """,
    ),
    "a dictionary filled at import": _job(
        'RATES["eu"] = 2',
        'RATES["eu"] = 3',
        """
        RATES = {}
        RATES["eu"] = 2
        def f(x):
            return x * RATES["eu"]
        """,
    ),
    "a dictionary filled by another module": _with(
        "more.py",
        "= 2",
        "= 3",
        """
        import table, more
        def f(x):
            return x * table.RATES["eu"]
        """,
        {"table.py": "RATES = {}\n", "more.py": 'import table\ntable.RATES["eu"] = 2\n'},
    ),
    "environment at import": _job(
        '"2"',
        '"3"',
        """
        import os
        RATE = int(os.environ.get("NO_SUCH_RATE", "2"))
        def f(x):
            return x * RATE
        """,
    ),
    # Objects
    "class-based decorator": _job(
        "* 2",
        "* 3",
        """
        import functools
        class scaled:
            def __init__(self, inner):
                functools.update_wrapper(self, inner)
                self.inner = inner
            def __call__(self, x):
                return self.inner(x) * 2
        @scaled
        def f(x):
            return x
        """,
    ),
    "class-based decorator with an argument": _job(
        "@scaled(2)",
        "@scaled(3)",
        """
        import functools
        class scaled:
            def __init__(self, rate):
                self.rate = rate
            def __call__(self, inner):
                def outer(x):
                    return inner(x) * self.rate
                return functools.wraps(inner)(outer)
        @scaled(2)
        def f(x):
            return x
        """,
    ),
    "method of an Enum": _job(
        "* 2",
        "* 3",
        """
        from enum import Enum
        class Region(Enum):
            EU = "eu"
            def rate(self, x):
                return x * 2
        def f(x):
            return Region.EU.rate(x)
        """,
    ),
    "Enum member in a closure": _job(
        "* 2",
        "* 3",
        """
        from enum import Enum
        class Region(Enum):
            EU = "eu"
            def rate(self, x):
                return x * 2
        def make(member=Region.EU):
            return lambda x: member.rate(x)
        f = make()
        """,
    ),
    "attribute of an Enum's member": _job(
        "= 2",
        "= 3",
        """
        from enum import Enum
        class Region(Enum):
            EU = "eu"
        Region.EU.rate = 2
        def f(x):
            return x * Region.EU.rate
        """,
    ),
    "function attribute": _job(
        "f.rate = 2",
        "f.rate = 3",
        """
        def f(x):
            return x * f.rate
        f.rate = 2
        """,
    ),
    "attribute of another function": _job(
        "base.rate = 2",
        "base.rate = 3",
        """
        def base(x):
            return x
        base.rate = 2
        def f(x):
            return base(x) * base.rate
        """,
    ),
    "partial": _job(
        "2)",
        "3)",
        """
        import functools
        def rate(y, x):
            return y * x
        scaled = functools.partial(rate, 2)
        def f(x):
            return scaled(x)
        """,
    ),
    "partialmethod": _job(
        "scale, 2)",
        "scale, 3)",
        """
        import functools
        class Rates:
            def scale(self, y, x):
                return y * x
            eu = functools.partialmethod(scale, 2)
        def f(x):
            return Rates().eu(x)
        """,
    ),
    "singledispatch": _job(
        "x * 2",
        "x * 3",
        """
        import functools
        @functools.singledispatch
        def f(x):
            return x
        @f.register
        def _(x: int):
            return x * 2
        """,
    ),
    "singledispatchmethod": _job(
        "x * 2",
        "x * 3",
        """
        import functools
        class Rates:
            @functools.singledispatchmethod
            def of(self, x):
                return x
            @of.register
            def _(self, x: int):
                return x * 2
        def f(x):
            return Rates().of(x)
        """,
    ),
    "cached function": _job(
        "x * 2",
        "x * 3",
        """
        import functools
        @functools.cache
        def rate(x):
            return x * 2
        def f(x):
            return rate(x)
        """,
    ),
    "cached property": _job(
        "return 2",
        "return 3",
        """
        import functools
        class Rates:
            @functools.cached_property
            def eu(self):
                return 2
        def f(x):
            return x * Rates().eu
        """,
    ),
    "descriptor": _job(
        "return 2",
        "return 3",
        """
        class Rate:
            def __get__(self, instance, owner):
                return 2
        class Rates:
            eu = Rate()
        def f(x):
            return x * Rates.eu
        """,
    ),
    "property's setter": _job(
        "value * 2",
        "value * 3",
        """
        class Rates:
            @property
            def eu(self):
                return self._eu
            @eu.setter
            def eu(self, value):
                self._eu = value * 2
        def f(x):
            rates = Rates()
            rates.eu = x
            return rates.eu
        """,
    ),
    "subclass of property": _job(
        "* 2",
        "* 3",
        """
        class scaled(property):
            def __get__(self, instance, owner):
                return super().__get__(instance, owner) * 2
        class Rates:
            @scaled
            def eu(self):
                return 1
        def f(x):
            return x * Rates().eu
        """,
    ),
    "metaclass": _job(
        "return 2",
        "return 3",
        """
        class Made(type):
            @property
            def rate(cls):
                return 2
        class Rates(metaclass=Made):
            pass
        def f(x):
            return x * Rates.rate
        """,
    ),
    "__init_subclass__": _job(
        "rate=2",
        "rate=3",
        """
        class Base:
            def __init_subclass__(cls, rate=1):
                cls.rate = rate
        class Rates(Base, rate=2):
            pass
        def f(x):
            return x * Rates.rate
        """,
    ),
    "constant of a class": _job(
        "RATE = 2",
        "RATE = 3",
        """
        class Rates:
            RATE = 2
            def of(self, x):
                return x * self.RATE
        def f(x):
            return Rates().of(x)
        """,
    ),
    "__slots__": _job(
        "Rates(2)",
        "Rates(3)",
        """
        class Rates:
            __slots__ = ("rate",)
            def __init__(self, rate):
                self.rate = rate
        RATES = Rates(2)
        def f(x):
            return x * RATES.rate
        """,
    ),
    "state left out of its pickled form": _job(
        "Rates(2)",
        "Rates(3)",
        """
        class Rates:
            def __init__(self, rate):
                self.rate = rate
            def __reduce__(self):
                return (Rates, (1,))
        RATES = Rates(2)
        def f(x):
            return x * RATES.rate
        """,
    ),
    "instance in a closure": _job(
        "make(2)",
        "make(3)",
        """
        class Rates:
            def __init__(self, rate):
                self.rate = rate
        def make(rate):
            rates = Rates(rate)
            return lambda x: x * rates.rate
        f = make(2)
        """,
    ),
    "default factory of a dataclass": _job(
        "return 2",
        "return 3",
        """
        from dataclasses import dataclass, field
        def rate():
            return 2
        @dataclass
        class Rates:
            eu: int = field(default_factory=rate)
        def f(x):
            return x * Rates().eu
        """,
    ),
    "type of a dataclass's field": _job(
        "eu: int",
        "eu: str",
        """
        from dataclasses import dataclass, fields
        @dataclass
        class Rates:
            eu: int = 1
        def f(x):
            return fields(Rates)[0].type(x)
        """,
    ),
    "inherited method": _with(
        "helpers.py",
        "* 2",
        "* 3",
        """
        from helpers import Base
        class Rates(Base):
            pass
        def f(x):
            return Rates().of(x)
        """,
        {"helpers.py": "class Base:\n    def of(self, x):\n        return x * 2\n"},
    ),
    "mixin": _job(
        "* 2",
        "* 3",
        """
        class Scaling:
            def of(self, x):
                return x * 2
        class Base:
            pass
        class Rates(Scaling, Base):
            pass
        RATES = Rates()
        def f(x):
            return RATES.of(x)
        """,
    ),
    "__call__": _job(
        "* 2",
        "* 3",
        """
        class Rates:
            def __call__(self, x):
                return x * 2
        f = Rates()
        """,
    ),
    "number with a class of its own": _job(
        "* 2",
        "* 3",
        """
        class Rate(int):
            def __mul__(self, x):
                return x * 2
        RATE = Rate(1)
        def f(x):
            return RATE * x
        """,
    ),
    "text with a class of its own": _job(
        "* 2",
        "* 3",
        """
        class Name(str):
            def rate(self, x):
                return x * 2
        NAME = Name("eu")
        def f(x):
            return NAME.rate(x)
        """,
    ),
    "dictionary with a class of its own": _job(
        "return 2",
        "return 3",
        """
        class Rates(dict):
            def __missing__(self, key):
                return 2
        RATES = Rates()
        def f(x):
            return x * RATES["eu"]
        """,
    ),
    "namedtuple with methods": _job(
        "* 2",
        "* 3",
        """
        from typing import NamedTuple
        class Rate(NamedTuple):
            eu: int
            def of(self, x):
                return x * 2
        RATE = Rate(1)
        def f(x):
            return RATE.of(x)
        """,
    ),
    "classmethod": _job(
        "* 2",
        "* 3",
        """
        class Rates:
            @classmethod
            def of(cls, x):
                return x * 2
        def f(x):
            return Rates.of(x)
        """,
    ),
    "bound method of a builtin": _job(
        '"eu": 2',
        '"eu": 3',
        """
        rate = {"eu": 2}.get
        def f(x):
            return x * rate("eu")
        """,
    ),
    "bound method of a pattern": _job(
        "a+",
        "b+",
        """
        import re
        match = re.compile("a+").match
        def f(x):
            return match(x)
        """,
    ),
    "itemgetter": _job(
        "itemgetter(0)",
        "itemgetter(1)",
        """
        import operator
        pick = operator.itemgetter(0)
        def f(x):
            return pick(x)
        """,
    ),
    "methodcaller": _job(
        '"upper"',
        '"lower"',
        """
        import operator
        call = operator.methodcaller("upper")
        def f(x):
            return call(x)
        """,
    ),
    "attrgetter": _job(
        '"real"',
        '"imag"',
        """
        from operator import attrgetter
        pick = attrgetter("real")
        def f(x):
            return pick(x)
        """,
    ),
    "registry": _job(
        "x * 2",
        "x * 3",
        """
        STEPS = {}
        def step(name):
            return lambda inner: STEPS.setdefault(name, inner)
        @step("eu")
        def _eu(x):
            return x * 2
        def f(x):
            return STEPS["eu"](x)
        """,
    ),
    "registry filled by another module": _with(
        "steps.py",
        "x * 2",
        "x * 3",
        """
        from registry import STEPS
        import steps
        def f(x):
            return STEPS["eu"](x)
        """,
        {
            "registry.py": "STEPS = {}\ndef step(inner):\n    STEPS['eu'] = inner\n    return inner\n",
            "steps.py": "from registry import step\n@step\ndef eu(x):\n    return x * 2\n",
        },
    ),
    "string template": _job(
        '"$x items"',
        '"$x things"',
        """
        import string
        TEMPLATE = string.Template("$x items")
        def f(x):
            return TEMPLATE.substitute(x=x)
        """,
    ),
    "generator": _job(
        "x * 2",
        "x * 3",
        """
        def rates(x):
            yield x * 2
        def f(x):
            return list(rates(x))
        """,
    ),
    "coroutine": _job(
        "x * 2",
        "x * 3",
        """
        import asyncio
        async def rate(x):
            return x * 2
        def f(x):
            return asyncio.run(rate(x))
        """,
    ),
    "name of a keyword": _job(
        "eu=x",
        "us=x",
        """
        def rate(eu=1, us=1):
            return eu / us
        def f(x):
            return rate(eu=x)
        """,
    ),
    "default argument": _job(
        "rates={1: 2}",
        "rates={1: 3}",
        """
        def f(x, rates={1: 2}):
            return x * rates[1]
        """,
    ),
    "keyword default": _job(
        "rate=2",
        "rate=3",
        """
        def f(x, *, rate=2):
            return x * rate
        """,
    ),
    "type hints that are read": _job(
        "x: int",
        "x: str",
        """
        import typing
        def f(x: int):
            return typing.get_type_hints(f)["x"](f.__annotations__)
        """,
    ),
    "type hints that a library reads": _job(
        "x: int",
        "x: float",
        """
        import pydantic
        @pydantic.validate_call
        def f(x: int):
            return x * 2
        """,
    ),
    "docstring that is read": _job(
        "two",
        "three",
        '''
        def f(x):
            """two"""
            return f.__doc__
        ''',
    ),
    "source that is read": _job(
        "# two",
        "# three",
        """
        import inspect
        def f(x):
            # two
            return inspect.getsource(f)
        """,
    ),
    "subclasses that are looked up": _job(
        "rate = 2",
        "rate = 3",
        """
        class Base:
            pass
        class Eu(Base):
            rate = 2
        def f(x):
            return [each.rate for each in Base.__subclasses__()]
        """,
    ),
    "generated code": _job(
        "* 2",
        "* 3",
        """
        space = {}
        exec("def rate(x): return x * 2", space)
        rate = space["rate"]
        def f(x):
            return rate(x)
        """,
    ),
    "context variable": _job(
        "RATE.set(2)",
        "RATE.set(3)",
        """
        import contextvars
        RATE = contextvars.ContextVar("rate")
        RATE.set(2)
        def f(x):
            return x * RATE.get()
        """,
    ),
    "thread-local value": _job(
        "LOCAL.rate = 2",
        "LOCAL.rate = 3",
        """
        import threading
        LOCAL = threading.local()
        LOCAL.rate = 2
        def f(x):
            return x * LOCAL.rate
        """,
    ),
    "weak reference": _job(
        "* 2",
        "* 3",
        """
        import weakref
        def rate(x):
            return x * 2
        REFERENCE = weakref.ref(rate)
        def f(x):
            return REFERENCE()(x)
        """,
    ),
    # What importing the job's modules does to libraries
    "library function replaced": _job(
        "* 2",
        "* 3",
        """
        import colorsys
        def to_hsv(x, y, z):
            return x * 2
        colorsys.rgb_to_hsv = to_hsv
        def f(x):
            return colorsys.rgb_to_hsv(x, x, x)
        """,
    ),
    "library function replaced by another module": _with(
        "patches.py",
        "* 2",
        "* 3",
        """
        import colorsys
        import patches
        def f(x):
            return colorsys.rgb_to_yiq(x, x, x)
        """,
        {
            "patches.py": """
            import colorsys
            def yiq(r, g, b):
                return r * 2
            def install():
                colorsys.rgb_to_yiq = yiq
            install()
            """
        },
    ),
    "library class extended": _job(
        "* 2",
        "* 3",
        """
        import fractions
        setattr(fractions.Fraction, "rate", lambda self, x: x * 2)
        ONE = fractions.Fraction(1)
        def f(x):
            return ONE.rate(x)
        """,
    ),
    "precision of decimals": _job(
        "prec = 6",
        "prec = 7",
        """
        import decimal
        decimal.getcontext().prec = 6
        def f(x):
            return decimal.Decimal(x) / 3
        """,
    ),
    "precision of decimals, by a name": _job(
        "prec = 6",
        "prec = 7",
        """
        import decimal
        context = decimal.getcontext()
        context.prec = 6
        def f(x):
            return decimal.Decimal(x) / 3
        """,
    ),
    "seed": _job(
        "seed(2)",
        "seed(3)",
        """
        import random
        random.seed(2)
        def f(x):
            return x * random.random()
        """,
    ),
    "pandas option": _job(
        '"display.precision", 4',
        '"display.precision", 5',
        """
        import pandas
        pandas.set_option("display.precision", 4)
        def f(x):
            return str(pandas.Series([x]))
        """,
    ),
    "numpy errors": _job(
        '"ignore"',
        '"warn"',
        """
        import numpy
        old = numpy.seterr(over="ignore")
        def f(x):
            return numpy.float64(x) ** 9
        """,
    ),
    "pandas accessor": _job(
        "* 2",
        "* 3",
        """
        import pandas
        @pandas.api.extensions.register_series_accessor("tariff")
        class Tariff:
            def __init__(self, series):
                self.series = series
            def of(self):
                return self.series * 2
        def f(x):
            return x.tariff.of()
        """,
    ),
    "variable of the process set at import": _job(
        '"UTC"',
        '"CET"',
        """
        import os, time
        os.environ["NO_SUCH_ZONE"] = "UTC"
        def f(x):
            return time.localtime(x)
        """,
    ),
    "variable of the process read when it runs": _job(
        "2)",
        "3)",
        """
        import os
        def f(x):
            return x * int(os.environ.get("NO_SUCH_RATE", 2))
        """,
    ),
    # Pickled by value
    "global of a nested function": _job(
        "RATE = 2",
        "RATE = 3",
        """
        RATE = 2
        def make():
            return lambda x: x * RATE
        """,
    ),
    "helper of a nested function": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import helpers
        def make():
            return lambda x: helpers.rate(x)
        """,
        _HELPER,
    ),
    "closure of a nested function": _job(
        "rates = {1: 2}",
        "rates = {1: 3}",
        """
        def make():
            rates = {1: 2}
            def inner(x):
                return x * rates[1]
            return inner
        """,
    ),
    "class inside of a function": _job(
        "x * 2",
        "x * 3",
        """
        def make():
            class Rates:
                def of(self, x):
                    return x * 2
            return lambda x: Rates().of(x)
        """,
    ),
    "module imported inside of the job's function": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        def make():
            import helpers
            return lambda x: helpers.rate(x)
        """,
        _HELPER,
    ),
    "file read by a nested function": _with(
        "rates.json",
        "2",
        "3",
        """
        import json
        from pathlib import Path
        def make():
            place = Path(__file__).parent / "rates.json"
            return lambda x: x * json.loads(place.read_text())["eu"]
        """,
        _DATA,
    ),
}


HIDINGS |= {
    # Tried once the above were seen
    "vectorised by numpy": _job(
        "* 2",
        "* 3",
        """
        import numpy as np
        def rate(x):
            return x * 2
        rates = np.frompyfunc(rate, 1, 1)
        def f(x):
            return rates(x)
        """,
    ),
    "np.vectorize": _job(
        "* 2",
        "* 3",
        """
        import numpy as np
        rates = np.vectorize(lambda x: x * 2)
        def f(x):
            return rates(x)
        """,
    ),
    "hints that typing evaluates": _job(
        "x: int",
        "x: str",
        """
        import typing
        def f(x: int):
            return typing.get_type_hints(f)["x"](x)
        """,
    ),
    "name of a function that is read": _with(
        "job.py",
        "eu",
        "us",
        """
        from helpers import RATES
        def eu(x):
            return x * RATES[eu.__name__]
        f = eu
        """,
        {"helpers.py": 'RATES = {"eu": 2, "us": 3}\n'},
    ),
    "order of a class's members": _job(
        "    EU = 1\n    US = 2",
        "    US = 2\n    EU = 1",
        """
class Rates:
    EU = 1
    US = 2
def f(x):
    return [each for each in Rates.__dict__ if each.isupper()][0]
        """,
    ),
    "order of a dictionary": _with(
        "rates.json",
        '"a": 1, "b": 2',
        '"b": 2, "a": 1',
        """
        import json, pathlib
        RATES = json.loads(pathlib.Path(__file__).with_name("rates.json").read_text())
        def f(x):
            return next(each for each in RATES if each in x)
        """,
        {"rates.json": '{"a": 1, "b": 2}'},
    ),
    "place handed to a reader that is given": _with(
        "rates.json",
        "2",
        "3",
        """
        import os
        HERE = os.path.dirname(__file__)
        def f(batch):
            return batch.sparkSession.read.json(HERE + "/rates.json").collect()
        """,
        _DATA,
    ),
    "source that is read as data": _with(
        "rates.py",
        "2",
        "3",
        """
        import ast, os
        HERE = os.path.dirname(__file__)
        def f(x):
            return x * ast.literal_eval(open(HERE + "/rates.py").read())["eu"]
        """,
        {"rates.py": '{"eu": 2}'},
    ),
    "hidden file": _with(
        ".rates",
        "2",
        "3",
        """
        import os
        HERE = os.path.dirname(__file__)
        def f(x):
            return x * int(open(HERE + "/.rates").read())
        """,
        {".rates": "2"},
    ),
    "module that replaced itself by an object": _with(
        "helpers.py",
        "* 2",
        "* 3",
        """
        import helpers
        def f(x):
            return helpers.rate(x)
        """,
        {
            "helpers.py": """
            import sys
            class Lazy:
                def rate(self, x):
                    return x * 2
            sys.modules[__name__] = Lazy()
            """
        },
    ),
    "function of a module that replaced itself": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        import helpers
        f = helpers.rate
        """,
        {
            "helpers.py": """
            import sys, types
            RATE = 2
            def rate(x):
                return x * RATE
            sys.modules[__name__] = types.SimpleNamespace(rate=rate)
            """
        },
    ),
    "class of a module": _with(
        "helpers.py",
        "return 2",
        "return 3",
        """
        import helpers
        def f(x):
            return x * helpers.rate
        """,
        {
            "helpers.py": """
            import sys, types
            class Computed(types.ModuleType):
                @property
                def rate(self):
                    return 2
            sys.modules[__name__].__class__ = Computed
            """
        },
    ),
    "function with globals of its own": _job(
        '"RATE": 2',
        '"RATE": 3',
        """
        import types
        def plain(x):
            return x * RATE
        f = types.FunctionType(plain.__code__, {"RATE": 2})
        """,
    ),
    "code exchanged": _job(
        "x * 2",
        "x * 3",
        """
        def f(x):
            return x
        f.__code__ = (lambda x: x * 2).__code__
        """,
    ),
    "defaults exchanged": _job(
        "(2,)",
        "(3,)",
        """
        def f(x, rate=1):
            return x * rate
        f.__defaults__ = (2,)
        """,
    ),
    "method put into a class": _with(
        "more.py",
        "x * 2",
        "x * 3",
        """
        from table import Rates
        import more
        def f(x):
            return Rates().of(x)
        """,
        {
            "table.py": "class Rates:\n    pass\n",
            "more.py": "from table import Rates\nRates.of = lambda self, x: x * 2\n",
        },
    ),
    "factory of a default dictionary": _job(
        "return 2",
        "return 3",
        """
        import collections
        def rate():
            return 2
        RATES = collections.defaultdict(rate)
        def f(x):
            return x * RATES["eu"]
        """,
    ),
    "objects in a pandas series": _job(
        "* 2",
        "* 3",
        """
        import pandas as pd
        class Rate:
            def of(self, x):
                return x * 2
        RATES = pd.Series({"eu": Rate()})
        def f(x):
            return RATES["eu"].of(x)
        """,
    ),
    "lazy iterator": _job(
        "* 2",
        "* 3",
        """
        RATES = map(lambda x: x * 2, [1, 2])
        def f(x):
            return x * next(RATES)
        """,
    ),
    "generator that is held": _job(
        "* 2",
        "* 3",
        """
        RATES = (x * 2 for x in [1, 2])
        def f(x):
            return x * next(RATES)
        """,
    ),
    "number inside of a derived partial": _job(
        "Scaled(pow, 2)",
        "Scaled(pow, 3)",
        """
        import functools
        class Scaled(functools.partial):
            pass
        KEPT = Scaled(pow, 2)
        def f(x):
            return KEPT(x)
        """,
    ),
    "time inside of a derived class": _job(
        "Day(2026, 1, 2)",
        "Day(2026, 1, 3)",
        """
        import datetime
        class Day(datetime.date):
            pass
        KEPT = Day(2026, 1, 2)
        def f(x):
            return x >= KEPT
        """,
    ),
    "library function replaced by exec": _job(
        "1.5",
        "2.5",
        """
        import colorsys
        exec("colorsys.ONE_THIRD = 1.5")
        def f(x):
            return colorsys.rgb_to_hls(x, x, x)
        """,
    ),
    "library function replaced in a loop": _job(
        "* 2",
        "* 3",
        """
        import colorsys
        for name in ("rgb_to_hls", "hls_to_rgb"):
            setattr(colorsys, name, lambda x, y, z: x * 2)
        def f(x):
            return colorsys.rgb_to_hls(x, x, x)
        """,
    ),
    "library's dictionary updated": _job(
        "1.5",
        "2.5",
        """
        import colorsys
        vars(colorsys)["ONE_SIXTH"] = 1.5
        def f(x):
            return colorsys.rgb_to_hls(x, x, x)
        """,
    ),
    "library replaced under a condition": _job(
        "NEW = False",
        "NEW = True",
        """
        import colorsys
        NEW = False
        if NEW:
            colorsys.TWO_THIRD = 1.5
        def f(x):
            return colorsys.rgb_to_hls(x, x, x)
        """,
    ),
    "library replaced by a class's creation": _job(
        "* 2",
        "* 3",
        """
        import colorsys
        class Patch:
            colorsys.rgb_to_yiq = lambda x, y, z: x * 2
        def f(x):
            return colorsys.rgb_to_yiq(x, x, x)
        """,
    ),
    "library replaced by a decorator": _job(
        "* 2",
        "* 3",
        """
        import colorsys
        def instead(inner):
            colorsys.yiq_to_rgb = lambda x, y, z: x * 2
            return inner
        @instead
        def other():
            pass
        def f(x):
            return colorsys.yiq_to_rgb(x, x, x)
        """,
    ),
    "library replaced while a value is made": _job(
        "* 2",
        "* 3",
        """
        import colorsys
        def install():
            colorsys.hsv_to_rgb = lambda x, y, z: x * 2
        done = install()
        def f(x):
            return colorsys.hsv_to_rgb(x, x, x)
        """,
    ),
    "finder of modules": _job(
        "RATE = 2",
        "RATE = 3",
        """
        import importlib.abc, importlib.util, sys
        class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path, target=None):
                return importlib.util.spec_from_loader(name, self) if name == "no_such_tariff" else None
            def create_module(self, spec):
                return None
            def exec_module(self, module):
                exec("RATE = 2", vars(module))
        sys.meta_path.append(Finder())
        def f(x):
            import no_such_tariff
            return x * no_such_tariff.RATE
        """,
    ),
    "json coder of a class": _job(
        "return 2",
        "return 3",
        """
        import json
        class Coder(json.JSONEncoder):
            def default(self, found):
                return 2
        def f(x):
            return json.dumps(x, cls=Coder)
        """,
    ),
    "dialect of csv": _job(
        '";"',
        '":"',
        """
        import csv
        csv.register_dialect("ours", delimiter=";")
        def f(x):
            return next(csv.reader([x], "ours"))
        """,
    ),
    "first day of the week": _job(
        "setfirstweekday(6)",
        "setfirstweekday(5)",
        """
        import calendar
        calendar.setfirstweekday(6)
        def f(x):
            return calendar.monthcalendar(2026, x)
        """,
    ),
    "how an object is pickled": _job(
        "+ 2",
        "+ 3",
        """
        import copyreg, fractions
        def reduce(found):
            return fractions.Fraction, (found.numerator + 2,)
        copyreg.pickle(fractions.Fraction, reduce)
        def f(x):
            return fractions.Fraction(x)
        """,
    ),
    "setter called on a library's object": _job(
        "clear_flags",
        "clear_traps",
        """
        import decimal
        context = decimal.getcontext()
        context.clear_flags()
        def f(x):
            return decimal.Decimal(x) / 0
        """,
    ),
    "import under a condition in the function": _with(
        "slow.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            try:
                from no_such_module import rate
            except ImportError:
                from slow import rate
            return rate(x)
        """,
        {"slow.py": HELPERS},
    ),
    "import in a nested function": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        def f(x):
            def inner():
                import helpers
                return helpers.rate(x)
            return inner()
        """,
        _HELPER,
    ),
    "import in a method": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        class Rates:
            def of(self, x):
                from helpers import rate
                return rate(x)
        def f(x):
            return Rates().of(x)
        """,
        _HELPER,
    ),
    "name that is given by the instance": _job(
        "* 2",
        "* 3",
        """
        class Rates:
            def __init__(self):
                self.step = "eu"
            def step_eu(self, x):
                return x * 2
        RATES = Rates()
        def f(x):
            return getattr(RATES, "step_" + RATES.step)(x)
        """,
    ),
    "slot of a base class": _job(
        "self.rate = 2",
        "self.rate = 3",
        """
        class Base:
            __slots__ = ("rate",)
        class Rates(Base):
            __slots__ = ()
            def __init__(self):
                self.rate = 2
        RATES = Rates()
        def f(x):
            return x * RATES.rate
        """,
    ),
    "list with a class of its own": _job(
        "[1, 2]",
        "[1, 3]",
        """
        class Rates(list):
            def __iter__(self):
                return iter([])
        RATES = Rates([1, 2])
        def f(x):
            return x * RATES[1]
        """,
    ),
    "number with a sign": _job(
        "0.0",
        "-0.0",
        """
        import math
        RATE = 0.0
        def f(x):
            return math.copysign(x, RATE)
        """,
    ),
    "kind of a number": _job(
        "RATE = 2",
        "RATE = 2.0",
        """
        RATE = 2
        def f(x):
            return x // RATE
        """,
    ),
    "truth for a number": _job(
        "RATE = 1",
        "RATE = True",
        """
        RATE = 1
        def f(x):
            return str(RATE)
        """,
    ),
    "handler of an exception": _job(
        "KeyError",
        "IndexError",
        """
        EXPECTED = (KeyError,)
        def f(x):
            try:
                return x["eu"]
            except EXPECTED:
                return 2
        """,
    ),
    "package that imports its modules when they are asked for": _with(
        "pkg/rules.py",
        "RATE = 2",
        "RATE = 3",
        """
        import pkg
        def f(x):
            return pkg.rules.rate(x)
        """,
        _pkg(
            init="import importlib\ndef __getattr__(name):\n    return importlib.import_module('.' + name, __name__)\n"
        ),
    ),
    "compressed file": _with(
        "rates.gz",
        "2",
        "3",
        """
        import gzip
        def f(x):
            return gzip.GzipFile("rates.gz").read()
        """,
        {"rates.gz": "2"},
    ),
    "reader inside of an inert library": _with(
        "rates.arrow",
        "2",
        "3",
        """
        from pyarrow import feather
        def f(x):
            return feather.FeatherDataset("rates.arrow")
        """,
        {"rates.arrow": "2"},
    ),
    "pickled by name, by Spark": _with(
        "helpers.py",
        "RATE = 2",
        "RATE = 3",
        """
        from pyspark import cloudpickle
        def f(x):
            return cloudpickle.loads(b"chelpers\\nrate\\n.")(x)
        """,
        _HELPER,
    ),
    "what a hint's text stands for": _job(
        "Rate = int",
        "Rate = float",
        """
        from __future__ import annotations
        import msgspec
        Rate = int
        class Rates(msgspec.Struct):
            eu: Rate
        def f(x):
            return msgspec.convert({"eu": x}, Rates, strict=False).eu
        """,
    ),
    "configuration of a struct": _job(
        "forbid_unknown_fields=False",
        "forbid_unknown_fields=True",
        """
        import msgspec
        class Rates(msgspec.Struct, forbid_unknown_fields=False):
            eu: int
        def f(x):
            return msgspec.json.decode(x, type=Rates)
        """,
    ),
    "names of a struct's fields outside": _job(
        'rename="camel"',
        'rename="pascal"',
        """
        import msgspec
        class Rates(msgspec.Struct, rename="camel"):
            eu_rate: int
        def f(x):
            return msgspec.json.decode(x, type=Rates)
        """,
    ),
    "default of a struct": _job(
        "eu: int = 2",
        "eu: int = 3",
        """
        import msgspec
        class Rates(msgspec.Struct):
            eu: int = 2
        def f(x):
            return x * Rates().eu
        """,
    ),
}


HARMLESS: dict[str, Hiding] = {
    "comment, docstring, formatting": _job(
        "    return x * 2",
        '    "Twice."\n    # and not more\n    return (x *\n            2)',
        "def f(x):\n    return x * 2\n",
    ),
    "another function added": _job(
        "def f(x)", "def other(x):\n    return x\n\ndef f(x)", "RATE = 2\ndef f(x):\n    return x * RATE\n"
    ),
    "another global": _job("OTHER = 2", "OTHER = 3", "OTHER = 2\nRATE = 2\ndef f(x):\n    return x * RATE\n"),
    "another function of a helper": _with(
        "helpers.py",
        "def rate",
        "def other(x):\n    return x\n\ndef rate",
        "import helpers\ndef f(x):\n    return helpers.rate(x)\n",
        _HELPER,
    ),
    "another module that is loaded": _with(
        "reports.py",
        "1",
        "2",
        "import helpers, reports\ndef f(x):\n    return helpers.rate(x)\n",
        {**_HELPER, "reports.py": "def report():\n    return 1\n"},
    ),
    "a data file that nothing reads": _with("rates.json", "2", "3", "def f(x):\n    return x\n", _DATA),
    "a data file beside pandas code": _with(
        "rates.json",
        "2",
        "3",
        """
        import pandas as pd
        import numpy as np
        def f(x):
            return pd.Series(np.where(x > 1, x, 0)).rolling(3).mean()
        """,
        _DATA,
    ),
    "the job's function": _job(
        "where('x > 1')",
        "where('x > 2')",
        """
        from pyspark.sql import functions as F
        from streamkeeper import Param, Query, streaming_job
        def f(x):
            return x * 2
        @streaming_job(name="job", params={})
        def job(spark, params):
            yield spark.readStream.json("/in").where('x > 1').select(F.udf(f)("x"))
        """,
    ),
    "a library's import": _job("import json", "import json, csv", "import json\ndef f(x):\n    return json.dumps(x)\n"),
    "a logger": _job(
        "import logging",
        "import logging\nLOG = logging.getLogger(__name__)\nlogging.basicConfig(level='INFO')",
        "import logging\ndef f(x):\n    return x\n",
    ),
    "a job that changes sys.path": _job(
        "return 1",
        "return 2",
        """
        import os, sys
        sys.path.insert(0, os.path.dirname(__file__))
        def other():
            return 1
        def f(x):
            return x
        """,
    ),
    "another function that reads a file": _with(
        "rates.json",
        "2",
        "3",
        """
        import json, os
        def other():
            return open(os.path.dirname(__file__) + "/rates.json").read()
        def f(x):
            return json.dumps(x)
        """,
        _DATA,
    ),
    "type hints": _job("f(x)", "f(x: float) -> float", "def f(x):\n    return x * 2\n"),
    "order of methods": _job(
        "    def a(self): pass\n    def b(self): pass",
        "    def b(self): pass\n    def a(self): pass",
        "class C:\n    def a(self): pass\n    def b(self): pass\ndef f(x):\n    return C().a()\n",
    ),
    "a module, beside code that reads files": _with(
        "reports.py",
        "1",
        "2",
        """
        import os
        import reports
        def f(x):
            return open(os.path.dirname(__file__) + "/rates.json").read()
        """,
        {**_DATA, "reports.py": "def report():\n    return 1\n"},
    ),
    "the job's file, beside a lazy import": _with(
        "job.py",
        "OTHER = 2",
        "OTHER = 3",
        "OTHER = 2\ndef f(x):\n    import helpers\n    return helpers.rate(x)\n",
        _HELPER,
    ),
    "a module that is not loaded": _with(
        "other_job.py", "1", "2", "import math\ndef f(x):\n    return math.floor(x)\n", {"other_job.py": "RATE = 1\n"}
    ),
    "an Enum that is not used": _job(
        "US = 2",
        "US = 3",
        "import enum\nclass Other(enum.Enum):\n    US = 2\nclass Region(enum.Enum):\n    EU = 1\n"
        "def f(x):\n    return Region(x)\n",
    ),
    "a virtual environment": _with(
        "venv/lib/x.py",
        "1",
        "2",
        "import importlib\ndef f(x):\n    return importlib.import_module(x)\n",
        {"venv/pyvenv.cfg": "", "venv/lib/x.py": "X = 1\n"},
    ),
    "what the guard of a script does": _job(
        "f(1)", "f(2)", 'def f(x):\n    return x\nif __name__ == "__main__":\n    f(1)\n'
    ),
}


def _same(top: str, body: str = "return x, KEPT", **others: str) -> dict[str, str]:
    lines = [*textwrap.dedent(top).strip().splitlines(), "def f(x):", f"    {body}", ""]
    return {"job.py": "\n".join(lines), **{name: textwrap.dedent(text) for name, text in others.items()}}


_DATACLASS = """
from dataclasses import dataclass, field
@dataclass{how}
class Rates:
    eu: int = 2
    others: dict[str, int] = field(default_factory=dict)
    def of(self, x):
        return x * self.eu
KEPT = Rates(3)
"""

FORMS: dict[str, dict[str, str]] = {
    "dataclass": _same(_DATACLASS.format(how="")),
    "frozen dataclass with slots": _same(_DATACLASS.format(how="(frozen=True, slots=True, order=True)")),
    "dataclass made in the function": _same(_DATACLASS.format(how=""), "return Rates(x).of(x)"),
    "compiled regex": _same("import re\nKEPT = re.compile('a+', re.I)", "return KEPT.sub('b', x)"),
    "cached property": _same(
        """
        import functools
        class Rates:
            @functools.cached_property
            def eu(self):
                return 2
        KEPT = Rates()
        """
    ),
    "lock": _same("import threading\nKEPT = threading.Lock()", "\n    with KEPT:\n        return x"),
    "re-entrant lock, condition, event, semaphore": _same(
        """
        import threading
        KEPT = [threading.RLock(), threading.Condition(), threading.Event(), threading.Semaphore(2)]
        """
    ),
    "lock of an instance": _same(
        """
        import threading
        class Counter:
            def __init__(self):
                self.lock = threading.Lock()
                self.number = 0
        KEPT = Counter()
        """
    ),
    "pandas frame": _same("import pandas as pd\nKEPT = pd.DataFrame({'k': ['a', 'b'], 'x': [1, 2]})"),
    "pandas frame with times and categories": _same(
        """
        import pandas as pd
        KEPT = pd.DataFrame({'t': pd.to_datetime(['2026-01-01', None]), 'c': pd.Categorical(['a', 'b'])}, index=[3, 4])
        """
    ),
    "pandas series": _same("import pandas as pd\nKEPT = pd.Series([1.5, None], name='x')", "return x.map(KEPT)"),
    "pandas in the function": _same(
        "import pandas as pd", "return pd.DataFrame({'x': [x]}).groupby('x').sum().reset_index()"
    ),
    "numpy arrays": _same("import numpy as np\nKEPT = [np.arange(5), np.ones((2, 3)), np.array(['a', 'b'])]"),
    "numpy functions and scalars": _same(
        "import numpy as np\nKEPT = [np.float64(1.5), np.sqrt, np.dtype('int64'), np.datetime64('2026-01-01')]",
        "return np.where(x > 1, KEPT[0], np.nan)",
    ),
    "numpy generator with a seed": _same("import numpy as np\nKEPT = np.random.default_rng(7)"),
    "times": _same(
        """
        from datetime import date, datetime, timedelta, timezone
        KEPT = [datetime(2026, 1, 1, tzinfo=timezone.utc), date(2026, 1, 1), timedelta(days=1)]
        """
    ),
    "zone": _same("from zoneinfo import ZoneInfo\nKEPT = ZoneInfo('Europe/Berlin')"),
    "decimal, fraction": _same(
        "from decimal import Decimal\nfrom fractions import Fraction\nKEPT = [Decimal('1.10'), Fraction(1, 3)]",
        "return Decimal(x).quantize(KEPT[0])",
    ),
    "uuid": _same("import uuid\nKEPT = uuid.UUID(int=7)", "return uuid.uuid5(KEPT, x)"),
    "logger": _same("import logging\nKEPT = logging.getLogger(__name__)", "KEPT.info('seen'); return x"),
    "logger with a handler": _same(
        "import logging, sys\nKEPT = logging.getLogger('rates')\nKEPT.addHandler(logging.StreamHandler(sys.stderr))"
    ),
    "path of the file": _same("from pathlib import Path\nKEPT = Path(__file__).resolve().parent / 'rates.json'"),
    "path of the file as text": _same(
        "import os\nKEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'a')"
    ),
    "data beside the file": _same(
        "import json, pathlib\nKEPT = json.loads(pathlib.Path(__file__).with_name('a.json').read_text())",
        **{"a.json": "[1, 2]"},
    ),
    "data read in the function": _same("import os", "return open(os.path.dirname(__file__) + '/a').read()", a="1"),
    "cached function": _same(
        "import functools\n@functools.lru_cache(maxsize=10)\ndef rate(x):\n    return x * 2\nKEPT = rate(1)",
        "return rate(x)",
    ),
    "Enum": _same(
        """
        from enum import Enum, Flag, IntEnum, auto
        class Region(Enum):
            EU = "eu"
            US = "us"
            def rate(self):
                return 2
        class Level(IntEnum):
            LOW = 1
        class Rights(Flag):
            READ = auto()
            WRITE = auto()
        KEPT = {Region.EU: 1, Level.LOW: 2, Rights.READ | Rights.WRITE: 3}
        """,
        "return Region(x).rate(), KEPT",
    ),
    "namedtuple": _same(
        """
        from collections import namedtuple
        from typing import NamedTuple
        Point = namedtuple("Point", "x y", defaults=(1,))
        class Rate(NamedTuple):
            eu: int = 2
        KEPT = [Point(1), Rate()]
        """,
        "return Point(x), KEPT",
    ),
    "typing objects": _same(
        """
        import typing
        from collections.abc import Callable
        T = typing.TypeVar("T")
        KEPT = [typing.Optional[int], list[str], int | None, Callable[[int], str], typing.Literal["a"], T,
                typing.Annotated[int, "x"], typing.NewType("Id", int), typing.Any]
        """
    ),
    "TypedDict and generic class": _same(
        """
        import typing
        T = typing.TypeVar("T")
        class Row(typing.TypedDict, total=False):
            k: str
        class Box(typing.Generic[T]):
            def __init__(self, held: T):
                self.held = held
        KEPT = [Row(k="a"), Box[int](1), Row, Box]
        """
    ),
    "pydantic model": _same(
        """
        import pydantic
        class Rates(pydantic.BaseModel):
            eu: int = pydantic.Field(2, ge=0)
            names: list[str] = []
            @pydantic.field_validator("eu")
            @classmethod
            def check(cls, value):
                return value
        KEPT = Rates(eu=3)
        """,
        "return Rates(eu=x)",
    ),
    "msgspec struct": _same(
        """
        import msgspec
        class Rates(msgspec.Struct, frozen=True):
            eu: int = 2
            names: list[str] = []
        KEPT = Rates(3)
        """,
        "return msgspec.json.decode(x, type=Rates)",
    ),
    "attrs class": _same(
        """
        import attrs
        @attrs.define
        class Rates:
            eu: int = 2
            names: list = attrs.field(factory=list)
        KEPT = Rates(3)
        """
    ),
    "partial": _same("import functools\nKEPT = functools.partial(pow, 2, mod=5)"),
    "generator function and coroutine": _same(
        "def each(x):\n    yield x\nasync def later(x):\n    return x\nKEPT = [each, later]"
    ),
    "weak references": _same(
        """
        import weakref
        class Node:
            pass
        NODE = Node()
        CACHE = weakref.WeakValueDictionary(one=NODE)
        KEYS = weakref.WeakKeyDictionary({NODE: 1})
        KEPT = [weakref.ref(NODE), CACHE, KEYS, weakref.WeakSet([NODE])]
        """
    ),
    "context variable": _same("import contextvars\nKEPT = contextvars.ContextVar('rate', default=2)"),
    "collections": _same(
        """
        from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
        KEPT = [defaultdict(list, a=[1]), OrderedDict(a=1), deque([1], maxlen=3), Counter("aab"), ChainMap({"a": 1})]
        """
    ),
    "mapping proxy and namespace": _same(
        "from types import MappingProxyType, SimpleNamespace\nKEPT = [MappingProxyType({'a': 1}), SimpleNamespace(b=2)]"
    ),
    "itertools objects": _same(
        "import itertools\nKEPT = [itertools.count(3), itertools.chain([1], [2]), itertools.cycle('ab'), iter([1])]"
    ),
    "string template": _same("import string\nKEPT = string.Template('$x')", "return KEPT.substitute(x=x)"),
    "random with a seed": _same("import random\nKEPT = random.Random(7)"),
    "thread-local": _same("import threading\nKEPT = threading.local()\nKEPT.rate = 2"),
    "abstract class": _same(
        """
        import abc
        from collections.abc import Mapping
        class Base(abc.ABC):
            @abc.abstractmethod
            def of(self, x): ...
        class Rates(Base):
            def of(self, x):
                return x
        class Table(Mapping):
            def __getitem__(self, key):
                return 1
            def __iter__(self):
                return iter("ab")
            def __len__(self):
                return 2
        KEPT = [Rates(), Table(), isinstance(Rates(), Base)]
        """
    ),
    "protocol": _same(
        """
        from typing import Protocol, runtime_checkable
        @runtime_checkable
        class Rating(Protocol):
            rate: int
            def of(self, x: int) -> int: ...
        class Rates:
            rate = 2
            def of(self, x: int) -> int:
                return x
        KEPT = isinstance(Rates(), Rating)
        """,
        "return isinstance(x, Rating), Rates()",
    ),
    "properties and methods of every kind": _same(
        """
        class Rates:
            __slots__ = ("a", "__dict__")
            def __init__(self):
                self.a, self.b = 1, 2
            @property
            def c(self):
                return self.a
            @staticmethod
            def d():
                return 1
            @classmethod
            def e(cls):
                return cls()
        KEPT = [Rates(), Rates.e, Rates.d, Rates().c, Rates.c]
        """
    ),
    "operator getters": _same(
        "import operator\nKEPT = [operator.itemgetter(1, 2), operator.attrgetter('a.b'), operator.methodcaller('c', 1)]"
    ),
    "Spark types": _same(
        """
        from pyspark.sql.types import ArrayType, DecimalType, LongType, StringType, StructField, StructType
        KEPT = StructType([StructField("a", LongType()), StructField("b", ArrayType(StringType())),
                           StructField("c", DecimalType(10, 2), False, {"m": 1})])
        """
    ),
    "Spark functions": _same(
        """
        from pyspark.sql import Row, functions as F
        from pyspark.sql.window import Window
        KEPT = [F.col, Row(a=1), Window]
        """,
        "return x.withColumn('y', F.col('x') + F.lit(1)), Row",
    ),
    "Spark udf": _same(
        """
        from pyspark.sql import functions as F
        from pyspark.sql.types import LongType
        @F.udf(returnType=LongType())
        def twice(x):
            return x * 2
        """,
        "return x.select(twice('x'))",
    ),
    "stateful processor": _same(
        """
        from pyspark.sql.streaming import StatefulProcessor
        class Keep(StatefulProcessor):
            def init(self, handle):
                self.kept = handle.getValueState("n", "n long")
            def handleInputRows(self, key, rows, timers):
                yield key
            def close(self):
                pass
        KEPT = Keep()
        """
    ),
    "library's callables": _same(
        "import json, math, statistics, urllib.parse\nKEPT = [json.dumps, math.floor, statistics.mean, str.upper, len]",
        "return urllib.parse.urlsplit(x), KEPT",
    ),
    "json coder": _same("import json\nKEPT = [json.JSONEncoder(sort_keys=True), json.JSONDecoder()]"),
    "sets": _same("KEPT = [{'a', 'b', 'c', 'd'}, frozenset({'x', 'y', 'z'}), {('a', 1), ('b', 2)}]"),
    "set in the function": _same("", "return x in {'a', 'b', 'c', 'd'}"),
    "set of objects": _same(
        """
        class Node:
            def __init__(self, name):
                self.name = name
        KEPT = {Node("a"), Node("b"), Node("c")}
        """
    ),
    "dictionary whose keys are a set's, sorted": _same("KEPT = {each: len(each) for each in sorted({'a', 'bb', 'c'})}"),
    "keys of dictionaries": _same("KEPT = {'a': 1, 2: 'b', (3, None): [4]}\nMORE = KEPT.keys()", "return KEPT, MORE"),
    "singledispatch": _same(
        """
        import functools
        @functools.singledispatch
        def rate(x):
            return x
        @rate.register
        def _(x: int):
            return x * 2
        @rate.register(str)
        def _(x):
            return x
        KEPT = rate(3)
        """,
        "return rate(x)",
    ),
    "context manager": _same(
        "import contextlib\n@contextlib.contextmanager\ndef held(x):\n    yield x\nKEPT = held", "return KEPT(x)"
    ),
    "lazy import of a helper": _same("", "\n    import helpers\n    return helpers.rate(x)", **_HELPER),
    "package with relative imports": _same(
        "from pkg.work import rate", "return rate(x)", **_pkg(**{"pkg/work.py": "from .rules import rate\n"})
    ),
    "import by a name": _same("import importlib", "return importlib.import_module('helpers').rate(x)", **_HELPER),
    "environment at import": _same("import os\nKEPT = os.environ.get('NO_SUCH_RATE', '2')"),
    "exceptions": _same(
        """
        class Broken(ValueError):
            def __init__(self, x):
                super().__init__(f"broken {x}")
        KEPT = [Broken(1), KeyError("a")]
        """,
        "raise Broken(x)",
    ),
    "sentinel": _same(
        "KEPT = object()\nNONE = [..., NotImplemented, None, range(3), slice(1, 2), 1j, b'x', bytearray(2)]"
    ),
    "thread pool": _same("import concurrent.futures\nKEPT = concurrent.futures.ThreadPoolExecutor(1)"),
    "hash": _same("import hashlib", "return hashlib.sha256(x).hexdigest()"),
    "pickled by value": {
        "job.py": "RATES = {'a': 1}\ndef make():\n    import json\n    return lambda x: json.dumps(RATES)\n"
    },
    "arrow": _same(
        "import pyarrow as pa, pyarrow.compute as pc\nKEPT = [pa.schema([('a', pa.int64())]), pa.array([1, 2])]",
        "return pc.add(x, 1), KEPT",
    ),
    "database engine": _same(
        "import sqlalchemy\nKEPT = sqlalchemy.create_engine('sqlite://')", "return KEPT.connect()"
    ),
    "open connection": _same("import sqlite3\nKEPT = sqlite3.connect(':memory:')"),
}
