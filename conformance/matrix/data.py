"""The rows of the cases: tiny files, some present before the change and some added after it. Pure, except for writing
them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[str | None, str | None, int | None, int | None, float]
"""k, k2, x, y, and the time in minutes after midnight."""

_NAMES = ("k", "k2", "x", "y")
_FIRST_AT = 1_700_000_000
_STEP_S = 60
_MIDNIGHT_US = 1_767_225_600_000_000
KAFKA = "kafka"
"""The form of rows that are in topics instead of files, as JSON."""


@dataclass(frozen=True, slots=True)
class File:
    """One input file, of rows or of raw lines; ``at``: its modification time, in seconds after that of the first
    file.
    """

    rows: tuple[Row | str, ...]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Files of two directories, before and after the change; only jobs with two sources read ``other``.

    ``tables``: static files, each with its name below ``dims`` and its text; the text of a ``.parquet`` file is given
    as JSON. ``schema``: the schema of Parquet files whose rows are given as JSON.
    """

    before: tuple[File, ...]
    after: tuple[File, ...]
    other_before: tuple[File, ...] = ()
    other_after: tuple[File, ...] = ()
    form: str = "json"
    tables: tuple[tuple[str, str], ...] = ()
    schema: pa.Schema | None = None

    def to_list(self) -> list[object]:
        """Return the whole content, for a digest."""
        sides = (self.before, self.after, self.other_before, self.other_after)
        found: list[object] = [self.form, *([[each.at, each.rows] for each in side] for side in sides)]
        found += [self.tables] if self.tables else []
        return [*found, str(self.schema)] if self.schema else found

    def place(self, root: Path, *, after: bool) -> None:
        """Write the files below ``root/a`` and ``root/b``; those added after the change only with ``after``, otherwise
        they are removed.
        """
        self.place_tables(root)
        sides = (("a", self.before, self.after), ("b", self.other_before, self.other_after))
        for folder, early, late in sides:
            (root / folder).mkdir(parents=True, exist_ok=True)
            for number, file in enumerate((*early, *late)):
                path = root / folder / f"{folder}{number}.{self.form}"
                if number < len(early) or after:
                    if not path.exists():
                        _write(path, file, number, self.form, self.schema)
                else:
                    path.unlink(missing_ok=True)

    def place_tables(self, root: Path) -> None:
        """Write the static files below ``root/dims``."""
        for name, text in self.tables:
            _write_table(root / "dims" / name, text)


def _write(path: Path, file: File, number: int, form: str, schema: pa.Schema | None) -> None:
    draft = path.with_name(f".{path.name}")
    if schema is not None:
        rows = [_moments(json.loads(_line(row))) for row in file.rows]
        pq.write_table(pa.Table.from_pylist(rows, schema), draft)
    elif form == "parquet":
        _write_parquet(draft, [_values(row) for row in file.rows])
    else:
        as_text = _csv if form == "csv" else _json
        lines = [row if isinstance(row, str) else as_text(row) for row in file.rows]
        draft.write_text("\n".join(lines) + "\n")
    moment = _FIRST_AT + (number * _STEP_S if file.at is None else file.at)
    os.utime(draft, (moment, moment))
    draft.rename(path)


def _write_table(path: Path, text: str) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        rows = [json.loads(line) for line in text.splitlines()]
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(text)


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    kinds = (pa.string(), pa.string(), pa.int32(), pa.int32())
    columns = {
        name: pa.array([row[at] for row in rows], kind)
        for at, (name, kind) in enumerate(zip(_NAMES, kinds, strict=True))
    }
    times = pa.array([_MIDNIGHT_US + round(row[4] * 60_000_000) for row in rows], pa.timestamp("us", "UTC"))
    pairs = pa.StructArray.from_arrays([columns["x"], columns["y"]], ["a", "b"])
    pq.write_table(pa.table({**columns, "ts": times, "v": pairs}), path)


def _line(row: Row | str) -> str:
    assert isinstance(row, str)
    return row


def _values(row: Row | str) -> Row:
    assert not isinstance(row, str)
    return row


def _moments(row: dict[str, object]) -> dict[str, object]:
    return {**row, "ts": datetime.fromisoformat(str(row["ts"]))}


def _time(minutes: float) -> str:
    seconds = round(minutes * 60)
    return f"2026-01-01T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"


def _json(row: Row) -> str:
    return json.dumps({**dict(zip(_NAMES, row[:4], strict=True)), "ts": _time(row[4])})


def _csv(row: Row) -> str:
    return ",".join("" if each is None else str(each) for each in (*row[:4], _time(row[4])))


_FIRST = File((("a", "p", 1, 10, 1), ("b", "q", 2, 20, 3), ("a", "q", 3, 30, 5)))
_SECOND = File((("a", "p", 5, 50, 11), ("c", "p", 7, 70, 15)))
_THIRD = File((("a", "p", 2, 15, 21), ("b", "p", 4, 5, 23), ("d", "q", 6, 60, 25)))

PLAIN = Data((_FIRST, _SECOND), (_THIRD,))
"""Rows in order of time, with three keys before the change and one more after it."""

LATE = Data((_FIRST, _SECOND), (File((("a", "p", 2, 15, 4), ("b", "p", 4, 5, 14), ("d", "q", 6, 60, 26))),))
"""The rows added after the change belong to windows from before it."""

NULLS = Data(
    (File((("a", "p", None, None, 1), ("b", "q", 2, 20, 3), ("a", None, 3, None, 5), (None, "p", 8, 80, 6))), _SECOND),
    (File((("a", "p", 2, 15, 21), ("b", "p", 4, None, 23), ("d", "q", None, 60, 25), (None, "q", 1, 1, 26))),),
)

TWO = Data(
    (_FIRST, _SECOND),
    (_THIRD,),
    (File((("a", "p", 100, 1, 2),)), File((("b", "q", 200, 2, 12),))),
    (File((("c", "p", 300, 3, 22),)),),
)
"""Two directories with the same number of files before the change and after it."""

UNEVEN = Data(
    (_FIRST, _SECOND, File((("e", "p", 8, 80, 16),)), File((("f", "q", 9, 90, 17),))),
    (_THIRD,),
    (File((("a", "p", 100, 1, 2),)),),
    (File((("c", "p", 300, 3, 22),)), File((("d", "p", 400, 4, 23),))),
)

_LEFT = (File((("a", "p", 1, 10, 1), ("b", "q", 2, 20, 2))), File((("c", "p", 3, 30, 3), ("e", "p", 9, 90, 3))))
_RIGHT = (File((("z", "p", 1, 100, 1), ("a", "z", 1, 200, 2))), File((("y", "z", 1, 600, 3),)))
_LEFT_AFTER = File((("d", "q", 4, 40, 7),))
_RIGHT_AFTER = File((("b", "q", 1, 300, 4), ("c", "w", 1, 400, 5), ("q", "p", 1, 500, 6)))
_FAR = File((("t", "p", 5, 50, 120),))

JOIN = Data(_LEFT, (_LEFT_AFTER,), _RIGHT, (_RIGHT_AFTER,))
"""a matches before the change; b and c wait for rows that are added after it; e, y and z never match."""

JOIN_FLUSH = Data(_LEFT, (_LEFT_AFTER, _FAR), _RIGHT, (_RIGHT_AFTER, File((("u", "p", 1, 700, 120),))))
"""The rows of JOIN, followed by rows with which the watermark passes everything that waits."""

JOIN_RANGE = Data(
    (File((("a", "p", 1, 10, 1),)), File((("c", "p", 3, 30, 5),))),
    (File((("d", "q", 4, 40, 6),)),),
    (File((("z", "p", 1, 100, 1),)), File((("y", "z", 1, 600, 5),))),
    (File((("a", "z", 1, 200, 5.5), ("c", "w", 1, 400, 5.5))),),
)
"""a's match is added four and a half minutes later."""

AGED = Data((_FIRST, _SECOND), (File((("m", "p", 2, 2, 20),), at=60 - 2 * 3600), File((("n", "p", 3, 3, 21),))))
"""One of the files added after the change is two hours older than the newest one before it."""

BACKLOG = Data(
    (_FIRST, _SECOND),
    tuple(File(((f"n{number}", "p", number, number, 20 + number),)) for number in range(3)),
)

MALFORMED = Data(
    (
        File(('{"k": "a", "x": 1, "y": 1}', '{"k": "b", "x": 2, "y": "bad"}', '{"k": "a", "x": 3, "y": 1}')),
        File(('{"k": "d", "x": 4, "y": 1}',)),
    ),
    (File(('{"k": "a", "x": 5, "y": 1}', '{"k": "b", "x": ', '{"k": "c", "x": "bad"}', '{"k": "b", "x": 6}')),),
)
"""Some of the rows added after the change do not parse; before it, only ``y`` of one row does not."""

MALFORMED_CSV = Data(
    (File(("a,1", "b,2", "a,3")), File(("b,4",))),
    (File(("a,5", "b,bad", "c", "b,6,7", "b,8")),),
    form="csv",
)

PARQUET = Data((_FIRST, _SECOND), (_THIRD,), form="parquet")

CSV = Data((_FIRST, _SECOND), (_THIRD,), form="csv")

QUOTED = Data(
    (File((('"a"', "p", 1, 10, 1), ("b", "q", 2, 20, 3))),),
    (File((('"a"', "p", 2, 15, 21), ("b", "p", 4, 5, 23))),),
    form="csv",
)
"""One key is quoted."""

OLD_OTHER = Data(
    (_FIRST, _SECOND),
    (),
    (),
    (
        File((("o", "p", 100, 1, 20),), at=60 - 9 * 86400),
        File((("n", "p", 101, 1, 21),), at=180),
    ),
)
"""The other directory holds one file that is nine days older than what was read."""

NEW_OTHER = Data(
    (_FIRST, _SECOND), (), (), (File((("n", "p", 100, 1, 20),), at=180), File((("o", "p", 101, 1, 21),), at=240))
)

UNTOUCHED = Data((_FIRST, _SECOND), (File((("b", "p", 4, 5, 23), ("d", "q", 6, 60, 25))),))
"""No row after the change has key a."""

AGAIN = Data((_FIRST, _SECOND), (File((("a", "p", 1, 10, 1), ("b", "p", 4, 5, 23), ("d", "q", 6, 60, 25))),))
"""The first row is repeated after the change, long after its time."""
