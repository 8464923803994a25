"""Numbers, archives and nesting in a checkpoint's files are bounded before they are believed, and are checked in little
memory.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkeeper.checkpoints.checksums import differs_from_checksum, is_cut_short
from streamkeeper.checkpoints.closed_set import closed_set
from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.gaps import MOST_NAMED, find_gaps
from streamkeeper.checkpoints.layout import commit_in, offsets_in
from streamkeeper.checkpoints.log_codec import Trouble, log_names
from streamkeeper.checkpoints.state_files import files_named_in
from streamkeeper.errors import CheckpointDamaged
from streamkeeper.sinks.sink_log import SINK_LOG, listed_files
from tests.checkpoints.tree_kinds import at
from tests.little_memory import MIB, little

HUGE = 10**12


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def offsets(end: int) -> str:
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{{"logOffset":{end}}}'


def checkpoint(root: Path, more: dict[str, str]) -> Path:
    metadata = {"metadata": '{"id":"6c1a6f0e-7f0f-4ab4-9b0b-0f3b5c7f6a11"}', "commits/0": "v1\n{}"}
    return write(root, {**metadata, "offsets/0": offsets(0), "sources/0/0": "v1\n", **more})


METADATA = {"operatorInfo": {"operatorId": 0, "operatorName": "dedupe"}, "stateStoreInfo": [{"storeName": "default"}]}
METADATA["stateStoreInfo"][0] |= {"numColsPrefixKey": 0, "numPartitions": HUGE}  # type: ignore[index]
CLAIMS: dict[str, dict[str, str]] = {
    "a source's offset": {"offsets/0": offsets(HUGE)},
    "a plan's number": {f"offsets/{HUGE}": offsets(0)},
    "a commit's number": {f"commits/{HUGE}": "v1\n{}", f"offsets/{HUGE}": offsets(0)},
    "a number beyond 64 bits": {f"commits/{'9' * 60}": "v1\n{}", f"offsets/{'9' * 60}": offsets(0)},
    "a source entry's number": {f"sources/0/{HUGE}": "v1\n"},
    "an operator's number": {f"state/{HUGE}/0/1.delta": ""},
    "a partition's number": {f"state/0/{HUGE}/1.delta": ""},
    "partitions in an operator's metadata": {
        "state/0/_metadata/metadata": f"v1\n{json.dumps(METADATA)}",
        "state/0/0/1.delta": "",
    },
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_huge_number_in_any_file_is_reported_quickly_as_damage(tmp_path: Path, claim: str) -> None:
    """A huge number in any file of a checkpoint is reported as damage quickly and in little memory, with a short
    message.
    """
    root = checkpoint(tmp_path, CLAIMS[claim])
    with little():
        found = examine(at(root), stateful=True)
    assert found
    assert all(len(each.evidence) < 500 for each in found)


def test_a_huge_source_offset_is_refused_when_the_closed_set_is_collected(tmp_path: Path) -> None:
    """A huge source offset is refused with the first missing entry when the closed set is collected."""
    root = checkpoint(tmp_path, {"offsets/0": offsets(HUGE)})
    with little(), pytest.raises(CheckpointDamaged, match="lacks entry 1"):
        closed_set(at(root), 0)
    with little(), pytest.raises(CheckpointDamaged, match="lacks entry 1"):
        log_names(["0"]).holding(HUGE, where="sources/0")


def test_a_sink_log_with_a_huge_batch_number_has_gaps(tmp_path: Path) -> None:
    """A sink log with a huge batch number is reported to have gaps, without generating all expected names."""
    write(tmp_path / SINK_LOG, {"0": "v1\n", str(HUGE): "v1\n"})
    with little(), pytest.raises(Exception, match="it has gaps"):
        listed_files(str(tmp_path), last=HUGE)


@given(there=st.sets(st.integers(-5, 40)), start=st.integers(-5, 40), end=st.integers(-5, 300))
def test_gaps_are_reported_with_the_first_missing_numbers_and_their_count(
    there: set[int], start: int, end: int
) -> None:
    """Gaps in a range of numbers are reported with the first missing numbers and their exact count."""
    missing = [each for each in range(start, end) if each not in there]
    found = find_gaps(start, end, there)
    assert (found.first, found.count) == (missing[:MOST_NAMED], len(missing))
    shown = ", ".join(map(str, missing[:5]))
    assert str(found) == (shown if len(missing) <= 5 else f"{shown} and {len(missing) - 5} more")


DEEP: dict[str, Callable[[Path, str], object]] = {
    "offsets": lambda root, text: offsets_in(at(write(root, {"offsets/0": f"v1\n{text}\n{{}}"})), 0),
    "an offset": lambda root, text: offsets_in(at(write(root, {"offsets/0": f"v1\n{{}}\n{text}"})), 0),
    "commits": lambda root, text: commit_in(at(write(root, {"commits/0": f"v1\n{text}"})), 0),
}


@pytest.mark.parametrize("place", DEEP)
def test_too_deeply_nested_json_is_reported_as_a_truncated_entry(tmp_path: Path, place: str) -> None:
    """JSON that is nested too deeply for Python's parser is reported as a truncated entry, not as a different kind of
    error.
    """
    assert DEEP[place](tmp_path, '{"a":' * 100_000 + "1" + "}" * 100_000) is Trouble.CUT_SHORT


def archive(metadata: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("metadata", metadata)
    return buffer.getvalue()


def test_an_archives_metadata_is_read_up_to_a_limit() -> None:
    """A small archive with 200 MiB of metadata is refused in little memory, while one that names 10,000 SSTs is
    read.
    """
    bomb = archive(b'v1\n{"sstFiles":[]' + b" " * (200 * MIB) + b"}")
    assert len(bomb) < MIB
    with little(40), pytest.raises(CheckpointDamaged, match=r"1\.zip cannot be read: its metadata has more than"):
        files_named_in(io.BytesIO(bomb), "1.zip")
    ssts = [
        {"localFileName": f"{n:06}.sst", "dfsSstFileName": f"{n:06}-{'a' * 36}.sst", "sizeBytes": n}
        for n in range(10_000)
    ]
    assert (
        len(files_named_in(io.BytesIO(archive(b"v1\n" + json.dumps({"sstFiles": ssts}).encode())), "1.zip")) == 10_000
    )


def test_an_archive_with_any_changed_byte_is_read_or_named(tmp_path: Path) -> None:
    """An archive with any single byte changed is either read or reported as damage, never as a bare error."""
    whole, path = archive(b'v1\n{"sstFiles":[]}'), tmp_path / "1.zip"
    cut_short = 0
    for place in range(len(whole)):
        for value in (0x00, 0x7F, 0xFF):
            changed = bytearray(whole)
            changed[place] = value
            with suppress(CheckpointDamaged):
                files_named_in(io.BytesIO(bytes(changed)), "1.zip")
            path.write_bytes(bytes(changed))
            cut_short += is_cut_short(at(tmp_path), path.name)
    assert 0 < cut_short < 3 * len(whole)


def test_a_large_state_file_is_checked_in_pieces(tmp_path: Path) -> None:
    """A large state file and its checksums are checked in pieces and in little memory, and a missing last byte is
    found.
    """
    path = tmp_path / "1.delta"
    head = b"LZ4Block\x25"
    with path.open("wb") as opened:
        for _ in range(64):
            opened.write(head + MIB.to_bytes(4, "little") * 2 + b"\0" * 4 + b"x" * MIB)
        opened.write(head + b"\0" * 12)
    with little():
        assert not is_cut_short(at(tmp_path), path.name)
    content = path.read_bytes()
    sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
    crc = tmp_path / ".1.delta.crc"
    crc.write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(each.to_bytes(4, "big") for each in sums))
    with little(40):
        assert not differs_from_checksum(at(tmp_path), path.name)
    crc.write_bytes(b"crc\0" + (2**32 - 1).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big"))
    with little():
        assert not differs_from_checksum(at(tmp_path), path.name)
    with path.open("r+b") as opened:
        opened.truncate(path.stat().st_size - 1)
    with little():
        assert is_cut_short(at(tmp_path), path.name)
        assert differs_from_checksum(at(tmp_path), path.name)
