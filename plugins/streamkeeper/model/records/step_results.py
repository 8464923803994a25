"""The results that a deploy's steps leave for later steps, and the form of these results in a journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import msgspec

from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import StepDone
from streamkeeper.model.records.step import Step


class StepResult(msgspec.Struct, frozen=True):
    """The result of a step; an instance of this base class is an empty result.

    A subclass's ``read`` decodes the dict that its ``stored`` returned, and also accepts an empty dict.
    """

    def stored(self) -> dict[str, str]:
        """Return the ``result`` for the record StepDone, in a form that every version of Streamkeeper reads."""
        return {}


class Bundled(StepResult, frozen=True):
    """The result of *bundle*: the operation's release."""

    release: str = ""

    def stored(self) -> dict[str, str]:
        return {"release": self.release}

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        return cls(stored.get("release", ""))


class _Names(StepResult, frozen=True):
    """A step result that consists of one name per query."""

    of_query: dict[str, str]

    def stored(self) -> dict[str, str]:
        return self.of_query

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        return cls(dict(stored))


class _Numbers(StepResult, frozen=True):
    """A step result that consists of one number per query."""

    of_query: dict[str, int]

    def stored(self) -> dict[str, str]:
        return {query: str(number) for query, number in self.of_query.items()}

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        return cls({query: int(number) for query, number in stored.items()})


class StateKept(_Names, frozen=True):
    """The result of *keep-state*: query -> the snapshot of its state."""


class LastBatches(_Numbers, frozen=True):
    """The result of *prove-dead*: query -> the last batch that the previous release committed."""


class VersionsRestored(_Names, frozen=True):
    """The result of *restore* and *fall-back*: query -> the checkpoint version that was made from its snapshot."""


class FirstBacklog(_Numbers, frozen=True):
    """The result of *first-commit*: query -> unread records when the step was done, if its sources report them."""


class OutputsCompared(StepResult, frozen=True):
    """The result of *compare*: query -> the comparison of its two outputs. StepDone stores it in ``compared``."""

    found: dict[str, OutputComparison]

    def stored(self) -> dict[str, str]:
        return {query: comparison.sentence for query, comparison in self.found.items()}


class CutoverSnapshots(StepResult, frozen=True):
    """The result of *snapshot*: query -> the snapshot of its last batch before the cutover, or why none was taken."""

    taken: dict[str, str]
    failed: dict[str, str]

    def stored(self) -> dict[str, str]:
        return {**self.taken, **{query: f"{_FAILED}{why}" for query, why in self.failed.items()}}

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        failed = {query: result.removeprefix(_FAILED) for query, result in stored.items() if result.startswith(_FAILED)}
        return cls({query: name for query, name in stored.items() if query not in failed}, failed)


_FAILED = "failed: "


def step_done(operation: str, step: Step, result: StepResult | None = None) -> StepDone:
    """Return the record of a finished step, with its result."""
    stored = result.stored() if result is not None else {}
    compared = result.found if isinstance(result, OutputsCompared) else {}
    return StepDone(operation=operation, step=step.tag, result=stored, compared=compared)
