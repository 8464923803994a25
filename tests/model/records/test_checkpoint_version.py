"""Tests which versions an output's lineage names."""

from __future__ import annotations

import pytest

from streamkeeper.model.records.checkpoint_version import CheckpointVersion, lineage_of
from streamkeeper.model.records.output_segments import OutputSegment


def version(name: str, parent: str = "", last: int | None = None) -> CheckpointVersion:
    return CheckpointVersion(
        query="totals", version=name, release="r0001", origin="test", state_format="f", parent=parent, parent_batch=last
    )


@pytest.mark.parametrize(
    ("versions", "lineage"),
    [
        ((version("v0001"),), (OutputSegment("v0001"),)),
        ((version("v0001"), version("v0002", "v0001", 7)), (OutputSegment("v0001", 7), OutputSegment("v0002"))),
        ((version("v0001"), version("v0002", "v0001")), (OutputSegment("v0001", -1), OutputSegment("v0002"))),
        (
            (version("v0001"), version("v0002", "v0001"), version("v0003", "v0002", 4)),
            (OutputSegment("v0001", -1), OutputSegment("v0002", 4), OutputSegment("v0003")),
        ),
    ],
)
def test_a_lineage_names_a_parent_without_a_batch(
    versions: tuple[CheckpointVersion, ...], lineage: tuple[OutputSegment, ...]
) -> None:
    """A lineage names each ancestor with its last batch, and with -1 an ancestor that never committed one."""
    assert lineage_of(versions, versions[-1].version) == lineage
