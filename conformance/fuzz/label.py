"""Edits that engineers make, each with its label by construction. Pure.

*equivalent*: from the checkpoint on, the job does what it would do from scratch. *changing*: the state, or the output
so far, has a different meaning. *from-now-on*: the state was computed from different rows, and by
`docs/reference/compatibility.md` the job resumes: a filter below an aggregate, a shorter lateness, a limit of rows.
What is documented as a switch is changing, no matter how many rows it affects.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from conformance.fuzz.pipeline import Pipeline


class Label(Enum):
    """The label of an edit, known by construction."""

    EQUIVALENT = "equivalent"
    CHANGING = "changing"
    FROM_NOW_ON = "from-now-on"


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit and the pipeline ``after`` it; ``opaque``: it changes Python code in or below state.

    ``name``: the kind of edit, of which a pipeline may have several; ``where``: the uid of its stage.
    """

    name: str
    label: Label
    after: Pipeline
    where: str = ""
    opaque: bool = False
