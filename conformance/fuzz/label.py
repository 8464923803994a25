"""Edits that engineers make, each with its label by construction. Pure.

*equivalent*: from the checkpoint on, the job does what it would do from scratch. *changing*: the state, or what was
given out so far, means something else. *from-now-on*: the state was made of other rows, and by
`docs/reference/compatibility.md` that is resumed: a filter below an aggregate, rows that may be less late, a limit of
rows. What is documented as a switch is changing, however many rows it concerns.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from conformance.fuzz.pipeline import Pipeline


class Label(Enum):
    """What an edit is by construction."""

    EQUIVALENT = "equivalent"
    CHANGING = "changing"
    FROM_NOW_ON = "from-now-on"


@dataclass(frozen=True, slots=True)
class Edit:
    """``old`` -> ``new``: the parts of a pipeline that are replaced; ``opaque``: Python in or below state.

    ``name``: the kind of edit, of which a pipeline may have several; ``where``: the uid of its stage.
    """

    name: str
    label: Label
    after: Pipeline
    where: str = ""
    opaque: bool = False
