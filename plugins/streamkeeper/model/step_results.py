"""The results of a deploy's steps for later steps, and their text in a journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import msgspec

from streamkeeper.model.comparison import OutputComparison
from streamkeeper.model.journal import StepDone
from streamkeeper.model.step import Step


class StepResult(msgspec.Struct, frozen=True):
    """Empty, unless a step has a type of its own. ``read`` accepts the result of ``stored``, and an empty one."""

    def stored(self) -> dict[str, str]:
        """The ``result`` of its StepDone, in a form that every version reads."""
        return {}


class Bundled(StepResult, frozen=True):
    """Of *bundle*: the operation's release."""

    release: str = ""

    def stored(self) -> dict[str, str]:
        return {"release": self.release}

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        return cls(stored.get("release", ""))


class _Names(StepResult, frozen=True):
    """A name for each query."""

    of_query: dict[str, str]

    def stored(self) -> dict[str, str]:
        return self.of_query

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        return cls(dict(stored))


class _Numbers(StepResult, frozen=True):
    """A number for each query."""

    of_query: dict[str, int]

    def stored(self) -> dict[str, str]:
        return {query: str(number) for query, number in self.of_query.items()}

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        return cls({query: int(number) for query, number in stored.items()})


class StateKept(_Names, frozen=True):
    """Of *keep-state*: query -> the snapshot of its state."""


class LastBatches(_Numbers, frozen=True):
    """Of *prove-dead*: query -> the last batch that the ended release has committed."""


class VersionsRestored(_Names, frozen=True):
    """Of *restore* and *fall-back*: query -> the checkpoint version made from its snapshot."""


class FirstBacklog(_Numbers, frozen=True):
    """Of *first-commit*: query -> its waiting records at that time, if its sources report them."""


class OutputsCompared(StepResult, frozen=True):
    """Of *compare*: query -> the comparison of its two outputs, which has a field of its own in StepDone."""

    found: dict[str, OutputComparison]

    def stored(self) -> dict[str, str]:
        return {query: comparison.sentence for query, comparison in self.found.items()}


class CutoverSnapshots(StepResult, frozen=True):
    """Of *snapshot*: query -> the snapshot of its last batch before the cutover, or why there is none."""

    taken: dict[str, str]
    failed: dict[str, str]

    def stored(self) -> dict[str, str]:
        return {**self.taken, **{query: f"{_FAILED}{why}" for query, why in self.failed.items()}}

    @classmethod
    def read(cls, stored: Mapping[str, str]) -> Self:
        failed = {query: told.removeprefix(_FAILED) for query, told in stored.items() if told.startswith(_FAILED)}
        return cls({query: name for query, name in stored.items() if query not in failed}, failed)


_FAILED = "failed: "


def step_done(operation: str, step: Step, result: StepResult | None = None) -> StepDone:
    """The record of a finished step, with its result."""
    stored = result.stored() if result is not None else {}
    compared = result.found if isinstance(result, OutputsCompared) else {}
    return StepDone(operation=operation, step=step.tag, result=stored, compared=compared)
