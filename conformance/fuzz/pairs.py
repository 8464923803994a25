"""The pairs of a seed: pipelines, each with the edits that were drawn for it, as cases of the matrix. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

from conformance.fuzz.drawing import draw_pipeline
from conformance.fuzz.edits import changes_job, edits_of
from conformance.fuzz.identified import Identified
from conformance.fuzz.label import Edit, Label
from conformance.fuzz.pipeline import MASK, Pipeline, render
from conformance.fuzz.rows import draw_rows
from conformance.fuzz.stages import Keep
from conformance.fuzz.written import draw_written, draws_written, written_edits
from conformance.matrix.case import Case
from conformance.matrix.outcome import OF_OUTPUTS
from conformance.matrix.realistic_jobs import DIMS

EDITS = 12
"""How many edits share the run of a base."""
SAME = 2
"""How many of them may be of one kind."""

_LABELS = (*[Label.EQUIVALENT] * 5, *[Label.CHANGING] * 6, Label.FROM_NOW_ON)
_PROVIDERS = ("hdfs", "rocksdb", "hdfs", "rocksdb", "v2")


@dataclass(frozen=True, slots=True)
class Pair:
    """A pipeline, one edit of it, and the case that they form."""

    seed: int
    base: int
    pipeline: Pipeline
    edit: Edit
    provider: str
    case: Case

    @property
    def id(self) -> str:
        """The pair's name, from which it can be drawn a second time."""
        return self.case.id


def draw_pairs(seed: int) -> Iterator[Pair]:
    """Yield the pairs of a seed, endlessly."""
    for base in count():
        yield from draw_base(seed, base)


def draw_base(seed: int, base: int) -> Iterator[Pair]:
    """Yield the pairs of one pipeline with its edits."""
    written = draws_written(seed)
    pipeline = draw_written(f"{seed}/{base}") if written else draw_pipeline(f"{seed}/{base}")
    edits = written_edits if written else edits_of
    rng = Random(f"{seed}/{base}/edits")
    provider = _provider(pipeline, rng)
    for number, edit in enumerate(draw_edits(pipeline, rng, edits)):
        yield as_pair(seed, base, f"{number:02d}", pipeline, edit, provider)


def as_pair(seed: int, base: int, number: str, pipeline: Pipeline, edit: Edit, provider: str) -> Pair:
    """Return the pair with its case."""
    data = draw_rows(seed, pipeline.form, two=pipeline.two or edit.after.two, flush=pipeline.flushes)
    case = Case(
        f"f{seed}-{base:03d}-{number}-{edit.name}",
        edit.name,
        render(pipeline),
        render(edit.after),
        edit.name,
        # Where rows have computed ids, what a reader finds under them is compared as well.
        group=OF_OUTPUTS if isinstance(pipeline.output, Identified) else "",
        data=data,
        opaque=edit.opaque,
        params={} if pipeline.two else DIMS,
        candidate_conf=dict(edit.after.conf),
        masked=MASK,
    )
    return Pair(seed, base, pipeline, edit, provider, case)


def find_pair(id: str) -> Pair:
    """Return the pair of an id; raises LookupError if the grammar does not draw such a pair, or no longer does."""
    seed, base, _ = id.removeprefix("f").split("-", 2)
    for pair in draw_base(int(seed), int(base)):
        if pair.id == id:
            return pair
    raise LookupError(id)


def draw_edits(pipeline: Pipeline, rng: Random, edits: Callable[[Pipeline], Iterator[Edit]] = edits_of) -> list[Edit]:
    """Draw edits of many kinds: first a label, then a kind, then one edit of that kind."""
    left = {label: [each for each in edits(pipeline) if each.label is label] for label in Label}
    chosen: list[Edit] = []
    while len(chosen) < EDITS:
        found = left[rng.choice(_LABELS)]
        kinds = Counter(each.name for each in chosen)
        new = [each for each in found if not kinds[each.name]] or [each for each in found if kinds[each.name] < SAME]
        if not new:
            found.clear()
            if not any(left.values()):
                break
            continue
        name = rng.choice(sorted({each.name for each in new}))
        edit = rng.choice([each for each in new if each.name == name])
        found.remove(edit)
        if changes_job(pipeline, edit):
            chosen.append(edit)
    return chosen


def _provider(pipeline: Pipeline, rng: Random) -> str:
    if not pipeline.stateful:
        return "-"
    if any(isinstance(each, Keep) and each.form == "row" for each in pipeline.stages):
        return rng.choice(("rocksdb", "v2"))
    return rng.choice(_PROVIDERS)
