"""Property tests of damaged checkpoints: any changed value, byte or file name is either reported as damage or accepted,
and never causes a different error.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import CheckpointDamaged
from tests.little_memory import little
from tests.snapshots.series import KINDS, a_checkpoint

VALUES = ["null", "-1", "1e999", "9" * 40, "[]", "{}", '"x"', "true", '"9999999999999"', "[[[[]]]]", "NaN", "0.5", '""']
NUMBERS = [str(10**12), "9" * 40, "0", "007", "\u0663"]
PLACE = re.compile(r'-?\d+|"[^"]*"|\{\}|\[\]|null')


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one intact checkpoint of each kind."""
    root = tmp_path_factory.mktemp("whole")
    for kind in KINDS:
        a_checkpoint(root / kind, kind)
    return root


def change_value(path: Path, data: st.DataObject) -> None:
    with suppress(UnicodeDecodeError):
        text = path.read_text()
        if places := list(PLACE.finditer(text)):
            at = data.draw(st.sampled_from(places))
            path.write_text(text[: at.start()] + data.draw(st.sampled_from(VALUES)) + text[at.end() :])


def change_byte(path: Path, data: st.DataObject) -> None:
    if content := bytearray(path.read_bytes()):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)


def change_name(path: Path, data: st.DataObject) -> None:
    number = data.draw(st.sampled_from(NUMBERS))
    path.rename(path.with_name(re.sub(r"\d+", number, path.name, count=1)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from(KINDS))
@pytest.mark.parametrize("change", [change_value, change_byte, change_name])
def test_a_changed_checkpoint_is_examined_or_reported_as_damaged(
    whole: Path, tmp_path: Path, data: st.DataObject, kind: str, change: object
) -> None:
    """Examining a changed checkpoint, and collecting the files of a batch, either succeeds or raises
    ``CheckpointDamaged``, within limited memory.
    """
    scratch = tmp_path / "changed"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(whole / kind, scratch)
    files = sorted(path for path in scratch.rglob("*") if path.is_file())
    assert callable(change)
    change(data.draw(st.sampled_from(files)), data)
    with little():
        examine(LocalTree(scratch), stateful=kind != "stateless")
        for pending in (False, True):
            with suppress(CheckpointDamaged):
                closed_set(LocalTree(scratch), 7, pending=pending)
