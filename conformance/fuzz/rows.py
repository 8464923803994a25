"""The rows that all jobs of a seed read: many keys, nulls, fractions, late rows, duplicates, open windows. Pure."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa

from conformance.matrix.data import Data, File

FORMS = ("json", "csv", "text", "parquet")
"""Input formats: fields of JSON, CSV with its nested part as JSON, one column of JSON text, Parquet."""

FLAT = "id string, k string, g string, x int, y int, d double, ts timestamp, note string"
NESTED = (
    "nums array<int>, words array<string>, who struct<name: string, tier: string, age: int, born: int>, "
    "items array<struct<sku: string, qty: int, price: int>>, attrs map<string, int>"
)
COLUMNS = {
    "id": "string",
    "k": "string",
    "g": "string",
    "x": "int",
    "y": "int",
    "d": "double",
    "ts": "ts",
    "note": "string",
    "nums": "ints",
    "words": "words",
    "who": "who",
    "items": "items",
    "attrs": "attrs",
}

_TEXT, _NUMBER = pa.string(), pa.int32()
IN_PARQUET = pa.schema(
    {
        **dict.fromkeys(("id", "k", "g"), _TEXT),
        **dict.fromkeys(("x", "y"), _NUMBER),
        "d": pa.float64(),
        "ts": pa.timestamp("us", "UTC"),
        "note": _TEXT,
        "nums": pa.list_(_NUMBER),
        "words": pa.list_(_TEXT),
        "who": pa.struct({"name": _TEXT, "tier": _TEXT, "age": _NUMBER, "born": _NUMBER}),
        "items": pa.list_(pa.struct({"sku": _TEXT, "qty": _NUMBER, "price": _NUMBER})),
        "attrs": pa.map_(_TEXT, _NUMBER),
    }
)
"""The types of the fields in Parquet files."""

TABLES = (
    (
        "places.csv",
        "k,region,fee,open\na,north,3,yes\nb,south,5,no\nc,north,7,yes\nd,east,2,no\n",
    ),
    (
        "places_2.csv",
        "k,region,fee,open\na,south,4,no\nb,south,6,yes\nc,east,9,no\ne,west,1,yes\n",
    ),
)

_SPANS = ((0, 55), (35, 100), (60, 150))
_SIZES = (14, 14, 20)
_FAR = 700


def draw_rows(seed: int, form: str, *, two: bool, flush: bool) -> Data:
    """Draw two files before the change and one after it, for one directory or two; for Kafka, the content of its
    topics.

    ``flush``: a much later row follows, so that the watermark passes everything that is still open.
    """
    rng = Random(f"rows {seed}")
    first, second = ([_file(rng, each, side) for each in range(3)] for side in ("r", "o"))
    if flush:
        first.append([_row(rng, "r99", _FAR)])
        second.append([_row(rng, "o99", _FAR)])
    a, b = ([File(tuple(_line(row, form) for row in rows)) for rows in side] for side in (first, second))
    other = (tuple(b[:2]), tuple(b[2:])) if two else ((), ())
    schema = IN_PARQUET if form == "parquet" else None
    return Data(tuple(a[:2]), tuple(a[2:]), *other, form=form, tables=TABLES, schema=schema)


def _file(rng: Random, number: int, side: str) -> list[dict[str, object]]:
    early, late = _SPANS[number]
    rows = [
        _row(rng, f"{side}{number}{each:02d}", rng.randint(early * 4, late * 4) / 4) for each in range(_SIZES[number])
    ]
    for key in "abc":
        rows.append({**_row(rng, f"{side}{number}{key}", rng.randint(early, late)), "k": key})
    rows.append({**rows[2], "x": 9})
    if number:
        rows.append(_row(rng, f"{side}0{number:02d}", rng.randint(early, late)))
        rows.append({**_row(rng, f"{side}005", early + 7), "k": "a"})
        rows.append(_row(rng, f"{side}late{number}", 1))
        rows.append(_row(rng, f"{side}later{number}", 22.5))
    return rows


def _row(rng: Random, name: str, minute: float) -> dict[str, object]:
    seconds = round(minute * 60)
    number = rng.randint(0, 9)
    return {
        "id": name,
        "k": rng.choice(("a", "b", "c", "d", "e", "A", None)),
        "g": rng.choice(("a", "b", "web", "Web ", "n-1")),
        "x": rng.choice((*range(-6, 14), None)),
        "y": rng.randint(-9, 20),
        "d": rng.randint(-40, 80) / 4,
        "ts": f"2026-01-01T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z",
        "note": rng.choice((f"n-{number}", f"abc-{number}", "W1", None)),
        "nums": [rng.randint(-4, 12) for _ in range(rng.randint(0, 4))],
        "words": [rng.choice(("a", "Bc", "n-1", "x9")) for _ in range(rng.randint(1, 3))],
        "who": {
            "name": rng.choice(("ann", "bob", "cy")),
            "tier": rng.choice(("gold", "basic")),
            "age": rng.randint(18, 60),
            "born": rng.randint(1960, 2004),
        },
        "items": [
            {"sku": rng.choice(("pen", "ink")), "qty": rng.randint(1, 5), "price": rng.randint(1, 9)}
            for _ in range(rng.randint(1, 2))
        ],
        "attrs": {key: rng.randint(0, 9) for key in rng.sample("abcd", 3)},
    }


def _line(row: dict[str, object], form: str) -> str:
    if form != "csv":
        return json.dumps(row)
    flat = [row[each] for each in ("id", "k", "g", "x", "y", "d", "ts", "note")]
    nested = json.dumps({each: row[each] for each in ("nums", "words", "who", "items", "attrs")})
    quoted = '"' + nested.replace('"', '""') + '"'
    return ",".join(["" if each is None else str(each) for each in flat] + [quoted])
