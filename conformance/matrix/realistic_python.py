"""Python below the state of realistic jobs: ways in which a change is hidden, and edits that change nothing."""

from __future__ import annotations

from conformance.matrix.case import Case, Job, in_group
from conformance.matrix.realistic_jobs import ORDERS, PLAIN_TOTALS, Edit, varied

_TOP = PLAIN_TOTALS.top
_LINES = """
orders = read_orders(s).filter("qty > 0")
priced = orders.withColumn("cost", price("country", "qty"))
costs = (
    priced.groupBy("shop")
    .agg(F.sum("cost").alias("cost"), F.count("*").alias("orders"), F.max("placed").alias("last_order"))
    .withColumn("mean", F.col("cost") / F.col("orders"))
)
"""
_OWN = '"""Prices of orders."""\n'


def _job(rules: str, *files: tuple[str, str], top: str = "") -> Job:
    """Return a job with orders priced by ``cost`` of the module ``pricing.rules``."""
    return Job(
        "costs",
        form="text",
        schema="value string",
        sink="ForeachBatch(upsert)",
        top=f'from pricing.rules import cost\n{top}\nprice = F.udf(cost, "long")\n{_TOP}',
        lines=_LINES,
        files=(("pricing/__init__.py", _OWN), ("pricing/rules.py", rules), *files),
    )


def _python(name: str, change: str, job: Job, *edits: Edit, opaque: bool = True, **more: object) -> Case:
    more = {"cause": "python", "opaque": opaque, "providers": ("rocksdb",), **more}
    return varied(job, ORDERS, f"py_{name}", change, *edits, **more)  # type: ignore[arg-type]


def _none(name: str, change: str, job: Job, *edits: Edit, opaque: bool = False) -> Case:
    return _python(name, change, job, *edits, opaque=opaque, cause="none", providers=("hdfs",))


_RATES = '{"DE": 2, "AT": 3, "FR": 4, "US": 5}\n'
_USE_RATES = "\n\ndef cost(country, qty):\n    return qty * RATES.get(country, 1)\n"
_TABLES = 'RATES = {"DE": 2, "AT": 3, "FR": 4, "US": 5}\n'

JSON_READ = _job(
    'import json\nfrom pathlib import Path\n\nRATES = json.loads((Path(__file__).parent / "rates.json").read_text())\n'
    + _USE_RATES,
    ("pricing/rates.json", _RATES),
)
CSV_READ = _job(
    """
import csv
from pathlib import Path


def read_rates():
    with open(Path(__file__).with_name("rates.csv"), newline="") as stream:
        return {row["country"]: int(row["rate"]) for row in csv.DictReader(stream)}


RATES = read_rates()
"""
    + _USE_RATES,
    ("pricing/rates.csv", "country,rate\nDE,2\nAT,3\nFR,4\nUS,5\n"),
)
PACKAGE_DATA = _job(
    'import json\nimport pkgutil\n\nRATES = json.loads(pkgutil.get_data("pricing", "data/rates.json"))\n' + _USE_RATES,
    ("pricing/data/rates.json", _RATES),
)
IMPORTED_BY_NAME = _job(
    """
import importlib


def cost(country, qty):
    tables = importlib.import_module("pricing.tables")
    return qty * tables.RATES.get(country, 1)
""",
    ("pricing/tables.py", _TABLES),
)
IMPORTED_LATE = _job(
    """
def cost(country, qty):
    from pricing import tables

    return qty * tables.RATES.get(country, 1)
""",
    ("pricing/tables.py", _TABLES),
)
CLASS_DECORATOR = _job("""
class Rounded:
    \"\"\"Rounds what a function gives up to whole packs.\"\"\"

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return -(-self.function(*arguments) // 5) * 5


@Rounded
def cost(country, qty):
    return qty * (3 if country == "DE" else 4)
""")
DECORATOR_FACTORY = _job("""
import functools


class scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*arguments):
            return function(*arguments) * self.factor

        return wrapped


@scaled(2)
def cost(country, qty):
    return qty + len(country)
""")
ENUM = _job("""
from enum import Enum


class Zone(Enum):
    HOME = ("DE", "AT")
    ABROAD = ("FR", "US")

    @classmethod
    def of(cls, country):
        return next((zone for zone in cls if country in zone.value), cls.ABROAD)

    def price(self, qty):
        return qty * 2 if self is Zone.HOME else qty * 5


def cost(country, qty):
    return Zone.of(country).price(qty)
""")
ATTRIBUTE = _job("""
def cost(country, qty):
    return qty * cost.factors.get(country, cost.other)


cost.factors = {"DE": 2, "AT": 3}
cost.other = 4
""")
REGISTRY = _job("""
RULES = {}


def rule(*countries):
    def keep(function):
        RULES.update(dict.fromkeys(countries, function))
        return function

    return keep


@rule("DE", "AT")
def near(qty):
    return qty * 2


@rule("FR", "US")
def far(qty):
    return qty * 6


def cost(country, qty):
    return RULES.get(country, far)(qty)
""")
PARTIAL = _job("""
from functools import partial


def weighted(country, qty, weight):
    return qty * weight + len(country)


cost = partial(weighted, weight=2)
""")
CACHED = _job("""
from functools import lru_cache


@lru_cache(maxsize=64)
def factor(country):
    return 2 if country in ("DE", "AT") else 5


def cost(country, qty):
    return qty * factor(country)
""")
DEFAULT = _job(
    """
from pricing.limits import LEAST


def cost(country, qty, least=LEAST):
    return max(qty * 2, least)
""",
    ("pricing/limits.py", "LEAST = 5\nMOST = 100\n"),
)
DATACLASS = _job("""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tariff:
    base: int = 1
    rates: dict = field(default_factory=lambda: {"DE": 2, "AT": 3})

    def price(self, country, qty):
        return self.base + qty * self.rates.get(country, 4)


TARIFF = Tariff(base=1)


def cost(country, qty):
    return TARIFF.price(country, qty)
""")
REGEX = _job(r"""
import re

NEAR = re.compile(r"^(DE|AT|LU)$", re.IGNORECASE)


def cost(country, qty):
    return qty * 2 if NEAR.match(country) else qty * 5
""")
INHERITED = _job(
    """
from pricing.base import Tariff


class Orders(Tariff):
    extra = 1

    def price(self, country, qty):
        return super().price(country, qty) + self.extra


cost = Orders().price
""",
    (
        "pricing/base.py",
        "class Tariff:\n    def price(self, country, qty):\n        return qty * self.rate(country)\n\n"
        '    def rate(self, country):\n        return 2 if country == "DE" else 3\n',
    ),
)
CLOSURE = _job("""
def priced_by(rates, other):
    def price(country, qty):
        return qty * rates.get(country, other)

    return price


cost = priced_by({"DE": 2, "AT": 3}, other=4)
""")
LAMBDAS = _job("""
RULES = {"DE": lambda qty: qty * 2, "AT": lambda qty: qty * 3}


def cost(country, qty):
    return RULES.get(country, lambda qty: qty)(qty)
""")
PATCHED = _job(
    "from pricing import settings\n\n\ndef cost(country, qty):\n    return qty * settings.FACTOR\n",
    ("pricing/settings.py", "FACTOR = 1\n"),
    top="from pricing import settings\n\nsettings.FACTOR = 2\n",
)
REEXPORTED = _job(
    'from pricing.impl import cost\n\n__all__ = ["cost"]\n',
    ("pricing/impl/__init__.py", "from .amounts import cost\n"),
    (
        "pricing/impl/amounts.py",
        "from . import amounts_table as table\n\n\ndef cost(country, qty):\n    return qty * table.of(country)\n",
    ),
    ("pricing/impl/amounts_table.py", 'KNOWN = {"DE": 2}\n\n\ndef of(country):\n    return KNOWN.get(country, 3)\n'),
)
FRAME = _job("""
import logging

import pandas as pd

RATES = pd.DataFrame({"country": ["DE", "AT", "FR"], "rate": [2, 3, 4]}).set_index("country")
log = logging.getLogger(__name__)


def cost(country, qty):
    if country not in RATES.index:
        log.debug("no rate for %s", country)
        return qty
    return int(qty * RATES.loc[country, "rate"])
""")
_SERIES = _job("""
import pandas as pd


def cost(country: pd.Series, qty: pd.Series) -> pd.Series:
    factor = country.map({"DE": 2, "AT": 3}).fillna(4).astype("int64")
    return qty * factor
""")
PANDAS = _SERIES.but(top=_SERIES.top.replace("F.udf(cost", "F.pandas_udf(cost"))
_MAPPED = _job("""
def cost(frames):
    for frame in frames:
        wanted = frame[frame.country != "US"]
        yield wanted.assign(cost=wanted.qty * 2)[["shop", "cost", "placed"]]
""")
MAPPED = _MAPPED.but(
    top=_MAPPED.top.replace('price = F.udf(cost, "long")', 'COSTS = "shop string, cost long, placed timestamp"'),
    lines=_MAPPED.lines.replace(
        'orders.withColumn("cost", price("country", "qty"))',
        'orders.select("shop", "country", "qty", "placed").mapInPandas(cost, COSTS)',
    ),
)
PLAIN = _job(
    '''
BASE = {"DE": 2, "AT": 3}


def rate(country):
    """The rate of a country."""
    return BASE.get(country, 4)


def cost(country, qty):
    # whole packs only
    packs = qty // 1
    return packs * rate(country)
''',
    ("pricing/reports.py", "def title(day):\n    return f'Prices of {day}'\n"),
    ("notes.txt", "Rates are reviewed each spring.\n"),
)

_OTHER = ('"AT": 3', '"AT": 7')

HIDDEN = (
    _python("json", "JSON read at import: a value", JSON_READ, _OTHER),
    _python("csv", "CSV read at import: a value", CSV_READ, ("AT,3", "AT,7")),
    _python("pkgutil", "data of the package read at import: a value", PACKAGE_DATA, _OTHER),
    _python("import_module", "a module imported by its name: a value", IMPORTED_BY_NAME, _OTHER),
    _python("late_import", "a module imported inside the function: a value", IMPORTED_LATE, _OTHER),
    _python("class_decorator", "the body of a class that decorates", CLASS_DECORATOR, ("// 5) * 5", "// 10) * 10")),
    _python(
        "decorator_argument", "the argument of a class that decorates", DECORATOR_FACTORY, ("@scaled(2)", "@scaled(3)")
    ),
    _python("enum_method", "a method of an Enum", ENUM, ("qty * 2 if", "qty * 3 if")),
    _python("enum_member", "the value of a member of an Enum", ENUM, ('("DE", "AT")', '("DE", "FR")')),
    _python("attribute", "an attribute of the function", ATTRIBUTE, ("cost.other = 4", "cost.other = 6")),
    _python("registry", "a function in a registry", REGISTRY, ("qty * 2", "qty * 3")),
    _python(
        "registry_key",
        "the key under which a function is registered",
        REGISTRY,
        ('@rule("DE", "AT")', '@rule("DE", "LU")'),
    ),
    _python("partial", "a bound argument", PARTIAL, ("weight=2", "weight=3")),
    _python("lru_cache", "a cached function", CACHED, ("else 5", "else 6")),
    _python("default", "a default from another module", DEFAULT, ("LEAST = 5", "LEAST = 9")),
    _python("dataclass", "the default of a dataclass's field", DATACLASS, _OTHER),
    _python("regex", "a compiled pattern", REGEX, ("DE|AT|LU", "DE|AT|FR")),
    _python("inherited", "a method of a base class in another module", INHERITED, ("else 3", "else 4")),
    _python("class_attribute", "a class attribute behind a bound method", INHERITED, ("extra = 1", "extra = 2")),
    _python("closure", "a value in a closure", CLOSURE, _OTHER),
    _python("lambdas", "a lambda in a dictionary", LAMBDAS, ("qty * 3", "qty * 7")),
    _python(
        "patched", "a setting that the job file overwrites", PATCHED, ("settings.FACTOR = 2", "settings.FACTOR = 3")
    ),
    _python("reexported", "a table behind relative imports", REEXPORTED, ('{"DE": 2}', '{"DE": 5}')),
    _python("frame", "a value in a pandas frame", FRAME, ("[2, 3, 4]", "[2, 7, 4]")),
    _python("pandas", "a pandas function", PANDAS, _OTHER),
    _python("mapped", "a function of mapInPandas", MAPPED, ("qty * 2", "qty * 3")),
    _python(
        "arguments",
        "another column given to the function",
        PLAIN,
        ('price("country", "qty")', 'price("country", "gift")'),
        opaque=False,
        cause="below",
    ),
)

UNTOUCHED = (
    _none("same", "control: unchanged", PLAIN),
    _none("comment", "a comment in the function", PLAIN, ("# whole packs only", "# only whole packs are sold")),
    _none("docstring", "a docstring", PLAIN, ('"""The rate of a country."""', '"""What a country pays per piece."""')),
    _none("formatted", "formatted otherwise", PLAIN, ('{"DE": 2, "AT": 3}', "{\n    'DE': 2,\n    'AT': 3,\n}")),
    _none("unused_file", "a module of the bundle that nothing imports", PLAIN, ("Prices of", "All prices of")),
    _none("notes", "a text file of the bundle", PLAIN, ("each spring", "each autumn")),
    _none(
        "unused_function",
        "a function added that nothing calls",
        PLAIN,
        ("def cost(", "def margin(qty):\n    return qty // 2\n\n\ndef cost("),
    ),
    _none("renamed_local", "a local variable renamed", PLAIN, ("packs", "boxes"), opaque=True),
    _none(
        "annotated",
        "annotations added",
        PLAIN,
        ("def cost(country, qty):", "def cost(country: str, qty: int) -> int:"),
        opaque=True,
    ),
    _none(
        "json_spaced",
        "the JSON that is read laid out otherwise",
        JSON_READ,
        ('{"DE": 2, ', '{\n  "DE": 2,\n  '),
        opaque=True,
    ),
    _none(
        "late_import_comment",
        "a comment in a module imported inside the function",
        IMPORTED_LATE,
        ("RATES = {", "# per piece\nRATES = {"),
    ),
    _none("ctl_json", "control: JSON read at import", JSON_READ),
    _none("ctl_dataclass", "control: a dataclass", DATACLASS),
    _none("ctl_enum", "control: an Enum", ENUM),
    _none("ctl_regex", "control: a compiled pattern", REGEX),
    _none("ctl_frame", "control: a pandas frame and a logger", FRAME),
    _none("ctl_cache", "control: a cached function", CACHED),
    _none("ctl_pandas", "control: a pandas function", PANDAS),
    _none("ctl_mapped", "control: mapInPandas", MAPPED),
)

CASES = in_group("realistic", *HIDDEN, *UNTOUCHED)
