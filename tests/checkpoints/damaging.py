"""Functions that damage the directory of a checkpoint that Spark or ``trees`` made."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.trees import LocalTree

Damaging = Callable[[Path], None]


LOSSES = ("missing", "empty", "another query's", "without its last batch", "gone back")
"""Ways in which a checkpoint of batches 0 to 7 can differ from its records."""


def lose(directory: Path, how: str) -> None:
    """Delete or change the directory in one of these ways."""
    match how:
        case "missing":
            shutil.rmtree(directory)
        case "empty":
            shutil.rmtree(directory)
            directory.mkdir()
        case "another query's":
            (directory / "metadata").write_text('{"id": "0a0a0a0a-eaab-48e1-8081-cfb9a2991009"}')
        case "without its last batch" | "gone back":
            for log in ("offsets", "commits"):
                for batch in (7,) if how == "without its last batch" else (6, 7):
                    (directory / log / str(batch)).unlink()


def remove(*names: str) -> Damaging:
    """Remove files with their checksums, or directories; ``*`` is a wildcard."""

    def act(root: Path) -> None:
        for path in [found for name in names for found in sorted(root.glob(name))]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return act


def last(log: str, damaging: Callable[[str], Damaging] = remove) -> Damaging:
    """Damage the last entry of ``offsets`` or ``commits``."""

    def act(root: Path) -> None:
        newest = last_planned(LocalTree(root)) if log == "offsets" else last_committed(LocalTree(root))
        damaging(f"{log}/{newest}")(root)

    return act


def write(text: str | bytes) -> Callable[[str], Damaging]:
    """Replace a file's content and remove its checksum."""

    def damaging(name: str) -> Damaging:
        def act(root: Path) -> None:
            for path in [found for found in sorted(root.glob(name)) if found.is_file()]:
                path.write_bytes(text.encode() if isinstance(text, str) else text)
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

        return act

    return damaging


def cut(keep: int | float) -> Callable[[str], Damaging]:
    """Keep this number of bytes of a file, or this fraction of it; its checksum is deleted."""

    def damaging(name: str) -> Damaging:
        def act(root: Path) -> None:
            for path in sorted(root.glob(name)):
                content = path.read_bytes()
                write(content[: keep if isinstance(keep, int) else int(len(content) * keep)])(name)(root)

        return act

    return damaging


def relabel(version: str) -> Callable[[str], Damaging]:
    """Replace the first line of a log entry."""

    def damaging(name: str) -> Damaging:
        def act(root: Path) -> None:
            for path in sorted(root.glob(name)):
                write("\n".join([version, *path.read_text().split("\n")[1:]]))(name)(root)

        return act

    return damaging


def move_offset(by: int, *, with_checksum: bool = False) -> Damaging:
    """Change the ``logOffset`` of the first source in the last plan; ``with_checksum`` keeps the old checksum file."""

    def act(root: Path) -> None:
        path = root / "offsets" / str(last_planned(LocalTree(root)))
        kept = path.with_name(f".{path.name}.crc")
        checksum = kept.read_bytes() if kept.exists() else b""
        lines = path.read_text().split("\n")
        lines[2] = json.dumps({"logOffset": json.loads(lines[2])["logOffset"] + by})
        write("\n".join(lines))(f"offsets/{path.name}")(root)
        if with_checksum:
            kept.write_bytes(checksum)

    return act


def in_turn(*acts: Damaging) -> Damaging:
    """Apply several damages one after the other."""

    def act(root: Path) -> None:
        for one in acts:
            one(root)

    return act


def write_checksum(path: Path) -> None:
    """Write a checksum file in Hadoop's format: one CRC-32 per 512-byte chunk."""
    content = path.read_bytes()
    sums = [zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512)]
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums))
