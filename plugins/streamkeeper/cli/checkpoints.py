"""``offsets`` and ``fsck``: read a checkpoint directory's files; no query is started or stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated

import pendulum
import typer
from rich.text import Text

from streamkeeper.checkpoints.facts import (
    CheckpointFacts,
    SourceOffset,
    batch_of,
    offsets_at,
    read_facts,
)
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.opening import open_tree
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.cli.common_options import Json, load_read_only
from streamkeeper.cli.terminal import Console, echo, echo_json
from streamkeeper.errors import NotFound, StreamkeeperError
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.damage import Damage
from streamkeeper.operations.jobs.registered import find_damage
from streamkeeper.sources.known_sources import offset_line

Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="Checkpoint of a query: a local directory, s3a://… or hdfs://…")
]


def offsets(
    directory: Directory,
    *,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            help="Print the positions of the sources after the batch with this number. Without it, after the last"
            " committed batch",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the position of every source after a batch. The position of a Kafka source can be used as
    startingOffsets."""
    checkpoint = open_tree(directory)
    facts, found = read_facts(checkpoint), offsets_at(checkpoint, batch)
    number = batch_of(checkpoint, batch)
    if json:
        echo_json(to_json({"batch": number, "facts": facts, "offsets": found}))
        return
    console = Console(soft_wrap=True, highlight=False)
    for line in (*_standing(facts, number), *(line for version in found for line in _source(version))):
        console.print(Text(line))


def fsck(
    directory: Directory,
    *,
    stateful: Annotated[
        bool,
        typer.Option(
            "--stateful",
            help="Treat the query as stateful, and report a checkpoint without any state as damaged",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Report the damage in a checkpoint, and what a query that starts there would do. The exit code is 1 if a start is
    unsafe."""
    checkpoint = open_tree(directory)
    found = (*examine(checkpoint, stateful=stateful), *_recorded_damage(checkpoint))
    if not found and not any(not name.startswith(".") for name in checkpoint.names("")):
        raise NotFound(
            f"{directory} is empty: it contains no checkpoint",
            hint="check that the disk is mounted. A query that starts here reads its sources from the beginning",
        )
    if json:
        echo_json(to_json(found))
    else:
        console = Console(soft_wrap=True, highlight=False)
        for version in found:
            console.print(_told(version))
        if not found:
            console.print(Text("no damage"))
    if not all(version.safe for version in found):
        raise typer.Exit(1)


def _recorded_damage(checkpoint: Tree) -> Iterator[Damage]:
    """Yield the damage that only the records of this installation show; nothing without an installation."""
    if not os.environ.get("STREAMKEEPER_HOME"):
        return
    try:
        damage = find_damage(load_read_only(), checkpoint)
    except StreamkeeperError as error:
        echo(f"note: the records about {checkpoint.where('')} cannot be read: {error}", err=True)
        return
    if damage is not None:
        yield damage


def _standing(facts: CheckpointFacts, number: int) -> Iterator[str]:
    yield f"batch {number}"
    yield f"last committed batch {'-' if facts.last_committed is None else facts.last_committed}"
    yield f"open batch {'-' if facts.open_batch is None else facts.open_batch}"
    yield f"watermark {_moment(facts.watermark_ms)}"


def _moment(milliseconds: int | None) -> str:
    """Return a watermark as UTC time, or "-" for None or 0, which Spark writes before there is a watermark."""
    return pendulum.from_timestamp(milliseconds / 1000).to_iso8601_string() if milliseconds else "-"


def _source(source: SourceOffset) -> Iterator[str]:
    offset = source.offset and (offset_line(source.offset) or source.offset)
    yield f"source {source.source}: {offset or 'no offset yet'}"
    for url in source.files:
        yield f"  {url}"


def _told(damage: Damage) -> Text:
    word, style = ("note", "dim") if damage.safe else ("damage", "red")
    line = Text.assemble((f"{word} {damage.shape}", style), f": {damage.where}: {damage.evidence}. {damage.on_start}")
    return line.append(f" ({damage.hint})") if damage.hint else line
