"""Progress and cost of a dual run, from the files of the two checkpoint versions only."""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.reach import Position, ReachComparison, compare, position
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointChanged, CheckpointDamaged
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus
from streamkeeper.model.records.checkpoint_version import EpochState
from streamkeeper.model.records.transitions import Reached

_DEFAULT_MEMORY = "1g"
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_BESIDE_THE_HEAP = 500 * 2**20
"""Memory of a driver outside its heap, bytes: its Python (121 MB measured) and the JVM's own memory."""


def how_far(old: Tree, new: Tree, *, until: int | None = None) -> Reached:
    """Return whether ``new`` has read all input that ``old`` has read up to a batch, and the estimated time left.

    ``until``: that batch; None for the last commit.
    """
    try:
        reach = compare(position(old.fresh(), until), position(new.fresh()))
    except (CheckpointDamaged, CheckpointChanged) as error:
        return Reached(holds=False, text=f"not measured: {error}")
    left = None if reach.holds or not reach.comparable else _seconds_left(new, reach)
    text = reach.sentence if left is None else f"{reach.sentence}; about {_duration(left)} left"
    return Reached(holds=reach.comparable and reach.holds, text=text)


def last_written(old: Tree, epoch: EpochState | None, status: DriverStatus | None) -> int | None:
    """Return the last batch that the terminated driver of a version may have written; None if no batch is planned.

    A planned batch counts, because a killed driver may have written it without committing it, and readers must not see
    its rows vanish. If the driver was drained, its status is more precise and is used instead: it names the last batch
    that the driver's gate admitted. No earlier driver can have written a later batch, because the admitted batch was
    not committed yet, and Spark commits a batch before it starts the next batch.

    ``epoch``: the query's newest epoch; ``status``: the last status of the driver that claimed this epoch.
    """
    planned = last_planned(old.fresh())
    if epoch is None or status is None or status.state is not DriverState.DRAINED:
        return planned
    reported = status.queries.get(epoch.query)
    last_claim = (status.instance, status.generation) == (epoch.instance, epoch.generation)
    if not last_claim or reported is None or (reported.version, reported.epoch) != (old.name, epoch.epoch):
        return planned
    return planned if reported.admitted is None else reported.admitted


def estimate(old: Tree, conf: Mapping[str, str], *, beside: str = "") -> str:
    """Return a phrase with a rebuild's input, the memory that a second driver needs, and this machine's free memory.

    ``conf``: the candidate's Spark conf; ``beside``: a phrase about additional input that the query has never read.
    """
    import psutil  # slow to load and rarely needed

    try:
        reads = compare(position(old.fresh()), Position()).lacking
    except (CheckpointDamaged, CheckpointChanged) as error:
        reads = f"an unknown amount ({error})"
    needs = _bytes(conf.get("spark.driver.memory", _DEFAULT_MEMORY)) + _BESIDE_THE_HEAP
    free = psutil.virtual_memory().available
    short = ", which is not enough" if free < needs else ""
    return f"reads {reads} again{beside}; a second driver needs about {_gib(needs)}, {_gib(free)} are free here{short}"


def _seconds_left(new: Tree, reach: ReachComparison) -> float | None:
    """Return an estimate from the duration of the reading so far; None before the first commit."""
    read = sum(source.total - source.missing for source in reach.sources)
    newest = last_committed(new.fresh())
    if newest is None or read <= 0:
        return None
    try:
        took_ns = new.stamp(f"commits/{newest}").modified - new.stamp("metadata").modified
    except FileNotFoundError:
        return None
    return max(0, took_ns) / 1e9 * sum(source.missing for source in reach.sources) / read


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _bytes(text: str) -> int:
    """Return a size in bytes from Spark's notation: ``512m``, ``1g``, ``2048`` (MiB)."""
    plain = text.strip().lower().removesuffix("b")
    number, unit = (plain[:-1], plain[-1]) if plain[-1:] in _UNITS else (plain, "m")
    return int(number) * _UNITS[unit] if number.isdecimal() else _UNITS["g"]


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
