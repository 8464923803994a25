"""The values that expressions in a sink's function can have. ``batch_columns`` distinguishes them by what data of the
batch they contain.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with rows of the batch."""

    whole: bool = True
    """Whether the rows have every column of the batch, not only those that the function names."""
    made: frozenset[str] = frozenset()
    """The names of columns that the function has created or dropped."""
    firm: bool = True
    """Whether every other column that is read must come from the query."""
    all_rows: bool = True
    """Whether no row was left out, so that a batch with rows has rows here."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """The result of ``groupBy``."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Writer:
    """The result of ``frame.write``; ``format`` is None if the function named no format."""

    frame: Frame
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that the function has collected from a frame."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class CollectedRow:
    """One row that the function has collected from a frame."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Plain:
    """A string, a number or a similar constant, whose value is known."""

    value: Any


@dataclass(frozen=True, slots=True)
class Several:
    """A list or a tuple of values."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A Python object that exists in this process and contains no data of the batch."""

    found: Any


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an object that the job defines."""

    function: FunctionType
    holder: Any


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function that is defined inside another function."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope


@dataclass(frozen=True, slots=True)
class Other:
    """Any other value.

    ``is_column``: whether the value is an expression over recorded columns. If not, it has no data of the batch.
    """

    is_column: bool = False


COLUMN, UNKNOWN = Other(is_column=True), Other()

Data: TypeAlias = Frame | Grouped | Writer | Rows | CollectedRow
Value: TypeAlias = Data | Plain | Several | Known | Method | Local | Other


@dataclass(slots=True, eq=False)
class Scope:
    """The variables of one call of a function."""

    function: FunctionType
    """The function whose globals and closure provide the variables that are not local."""
    file: str
    """The file of the function."""
    variables: dict[str, Value] = field(default_factory=dict)
    """The values of the local variables, by name."""
    outer: Scope | None = None
    """The scope of the enclosing function."""
    returned: list[Value] = field(default_factory=list)
    """The values that the function returns."""

    def find(self, name: str) -> Value | None:
        """Return the value of a variable of this function or of the enclosing functions, or None if none of these has
        it.
        """
        return self.variables[name] if name in self.variables else self.outer.find(name) if self.outer else None


def frames_in(value: Value) -> Iterator[Frame]:
    """Yield the frames that a value contains or was made from."""
    match value:
        case Frame():
            yield value
        case Grouped(frame=frame) | Writer(frame=frame) | Rows(frame=frame) | CollectedRow(frame=frame):
            yield frame
        case Several(values=values):
            for each in values:
                yield from frames_in(each)


def either(one: Value, other: Value) -> Value | None:
    """Return the value of a variable that is assigned on two paths; None if the values are of different kinds."""
    match one, other:
        case Frame(), Frame():
            return Frame(
                one.whole or other.whole,
                one.made | other.made,
                one.firm and other.firm,
                one.all_rows and other.all_rows,
            )
        case Rows(), Rows():
            frame = either(one.frame, other.frame)
            return Rows(frame) if isinstance(frame, Frame) else None
        case _:
            return one if one == other else None
