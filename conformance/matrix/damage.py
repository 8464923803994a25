"""Ways to damage a checkpoint, or the output beside it, by name."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, Path], None]


def _numbered(folder: Path) -> list[Path]:
    """Return the files named after a batch, oldest first."""
    return sorted((each for each in folder.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))


def _drop(*files: Path) -> None:
    """Delete files with the checksums beside them, and directories with their content."""
    for file in files:
        if file.is_dir():
            shutil.rmtree(file)
            continue
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _rewrite(file: Path, text: str) -> None:
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(text)


def _empty(*folders: Path) -> None:
    for folder in folders:
        for file in folder.iterdir():
            file.unlink()


def _edit_log_offset(checkpoint: Path, change: Callable[[int], int]) -> None:
    last = _numbered(checkpoint / "offsets")[-1]
    text = re.sub(r'"logOffset":(\d+)', lambda found: f'"logOffset":{change(int(found[1]))}', last.read_text())
    _rewrite(last, text)


def _state_files(checkpoint: Path) -> list[list[Path]]:
    """Return the data files of each partition of the first operator, oldest first."""
    found = []
    for partition in sorted((checkpoint / "state" / "0").iterdir()):
        if partition.name.isdecimal():
            files = [each for each in partition.iterdir() if each.suffix in (".delta", ".zip", ".changelog")]
            found.append(sorted(files, key=lambda each: (int(re.split(r"[._]", each.name)[0]), each.suffix)))
    return found


def _new_id(checkpoint: Path, _: Path) -> None:
    _rewrite(checkpoint / "metadata", f'{{"id":"{uuid.UUID(int=7)}"}}')


def _rewind(checkpoint: Path, _: Path) -> None:
    last = _numbered(checkpoint / "offsets")[-1].name
    _drop(checkpoint / "offsets" / last, checkpoint / "commits" / last, checkpoint / "sources/0" / last)


def _last(folder: str) -> Callable[[Path], Path]:
    return lambda checkpoint: _numbered(checkpoint / folder)[-1]


_LAST_OFFSET, _LAST_COMMIT, _LAST_SOURCE = _last("offsets"), _last("commits"), _last("sources/0")


def _half(checkpoint: Path, _: Path) -> None:
    file = _LAST_OFFSET(checkpoint)
    text = file.read_text()
    _rewrite(file, text[: len(text) // 2])


def _version(checkpoint: Path, _: Path) -> None:
    file = _LAST_OFFSET(checkpoint)
    _rewrite(file, "v9" + file.read_text()[2:])


def _empty_last_state(checkpoint: Path, _: Path) -> None:
    for files in _state_files(checkpoint):
        _rewrite(files[-1], "")


DAMAGES: dict[str, Damage] = {
    "copied": lambda checkpoint, output: None,
    "offsets_gone": lambda checkpoint, output: _empty(checkpoint / "offsets"),
    "offsets_commits_gone": lambda checkpoint, output: _empty(checkpoint / "offsets", checkpoint / "commits"),
    "sources_gone": lambda checkpoint, output: _drop(checkpoint / "sources/0"),
    "last_source_gone": lambda checkpoint, output: _drop(_LAST_SOURCE(checkpoint)),
    "last_offset_gone": lambda checkpoint, output: _drop(_LAST_OFFSET(checkpoint)),
    "last_commit_gone": lambda checkpoint, output: _drop(_LAST_COMMIT(checkpoint)),
    "last_offset_commit_gone": lambda checkpoint, output: _drop(_LAST_OFFSET(checkpoint), _LAST_COMMIT(checkpoint)),
    "metadata_gone": lambda checkpoint, output: _drop(checkpoint / "metadata"),
    "metadata_empty": lambda checkpoint, output: _rewrite(checkpoint / "metadata", ""),
    "metadata_new_id": _new_id,
    "first_offset_gone": lambda checkpoint, output: _drop(checkpoint / "offsets/0"),
    "first_offset_last_commit_gone": lambda checkpoint, output: _drop(
        checkpoint / "offsets/0", _LAST_COMMIT(checkpoint)
    ),
    "first_commit_gone": lambda checkpoint, output: _drop(checkpoint / "commits/0"),
    "last_offset_empty": lambda checkpoint, output: _rewrite(_LAST_OFFSET(checkpoint), ""),
    "last_offset_half": _half,
    "last_offset_version": _version,
    "last_commit_empty": lambda checkpoint, output: _rewrite(_LAST_COMMIT(checkpoint), ""),
    "offset_ahead": lambda checkpoint, output: _edit_log_offset(checkpoint, lambda number: 5),
    "offset_behind": lambda checkpoint, output: _edit_log_offset(checkpoint, lambda number: number - 1),
    "state_gone": lambda checkpoint, output: _drop(checkpoint / "state"),
    "state_operator_gone": lambda checkpoint, output: _drop(checkpoint / "state/0"),
    "state_partition_gone": lambda checkpoint, output: _drop(checkpoint / "state/0/1"),
    "state_metadata_gone": lambda checkpoint, output: _drop(checkpoint / "state/0/_metadata"),
    "state_first_gone": lambda checkpoint, output: _drop(*(files[0] for files in _state_files(checkpoint))),
    "state_last_gone": lambda checkpoint, output: _drop(_state_files(checkpoint)[0][-1]),
    "state_last_empty": _empty_last_state,
    "crc_gone": lambda checkpoint, output: _drop(*list(checkpoint.rglob(".*.crc"))),
    "rewind_one": _rewind,
    "sink_log_gone": lambda checkpoint, output: _drop(output / "v0001/_spark_metadata"),
}
"""Name -> the function that damages (checkpoint, output)."""
