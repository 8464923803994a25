"""Tests the canonical JSON encoding of values and the errors for stored bytes that cannot be decoded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streamkeeper.errors import FormatTooNew, RegistryDamaged
from streamkeeper.model import coding
from streamkeeper.model.coding import MOST_BYTES, from_json, to_json
from tests.little_memory import MIB, little


class Note(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 1
    text: str
    numbers: dict[str, int] = {}


def test_equal_values_are_equal_bytes() -> None:
    """Equal values have equal bytes, whatever the order in which a dict was filled, so that their hashes are equal."""
    assert to_json(Note(text="a", numbers={"x": 1, "y": 2})) == to_json(Note(text="a", numbers={"y": 2, "x": 1}))


def test_dict_order_is_kept_with_in_order() -> None:
    """With ``in_order`` a dict's own order survives encoding and decoding."""
    note = Note(text="a", numbers={"y": 2, "x": 1})
    assert list(from_json(to_json(note, in_order=True), Note, where="note").numbers) == ["y", "x"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'{"text":7}', b"{}", b'{"text":"\xff"}', b"\xff\xfe"])
def test_unreadable_bytes_are_reported_with_their_place(data: bytes) -> None:
    """Truncated, foreign, mistyped and undecodable bytes are reported as damage with their location."""
    with pytest.raises(RegistryDamaged, match="a/b cannot be read"):
        from_json(data, Note, where="a/b", newest_format=1)


def test_newer_format_is_no_damage() -> None:
    """Data of a newer format is reported as such, even if this version cannot decode it."""
    with pytest.raises(FormatTooNew, match="a/b has format 2"):
        from_json(b'{"format":2,"words":[]}', Note, where="a/b", newest_format=1)


def test_unknown_fields_and_missing_ones_with_a_default_are_fine() -> None:
    """Unknown fields are ignored and missing ones get their default, so that fields can be added within a format."""
    assert from_json(b'{"text":"a","of_tomorrow":1}', Note, where="note", newest_format=1) == Note(text="a")


def test_a_record_above_the_size_limit_is_not_decoded() -> None:
    """A record above the size limit is refused in one line before it is decoded, within 1 MiB of memory; a record of
    exactly the limit is read.
    """
    many = b'{"text":"","numbers":{' + b",".join(b'"%d":1' % number for number in range(4_000_000)) + b"}}"
    assert len(many) > MOST_BYTES
    with (
        little(1),
        pytest.raises(
            RegistryDamaged, match=r"a/b is [\d,]+ bytes, more than the 33,554,432 .*restore the original content"
        ),
    ):
        from_json(many, Note, where="a/b", newest_format=1)
    largest = to_json(Note(text="x" * (MOST_BYTES - len(to_json(Note(text=""))))))
    assert len(largest) == MOST_BYTES
    assert len(from_json(largest, Note, where="a/b", newest_format=1).text) > 31 * MIB


@pytest.mark.parametrize("data", [b'{"numbers":' * 100_000, b'{"text":"a","unknown":' + b"[" * 100_000])
def test_a_record_nested_deeper_than_python_goes_is_damage(data: bytes) -> None:
    """A record that is nested too deeply is reported as damage, in known and in unknown fields."""
    with pytest.raises(RegistryDamaged, match="a/b cannot be read"):
        from_json(data, Note, where="a/b")


_TOGETHER = """
import os, sys, threading
import msgspec
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.records.journal_records import Entry, OperationStarted

sys.setswitchinterval(1e-6)
request = {"job": "sales", "requested_by": "ann", "reason": "r", "params": {"n": 1}}
record = {"type": OperationStarted.__struct_config__.tag, "operation": "op-1", "request": request}
data = to_json({"number": 1, "at": "2026-11-22T00:00:00+00:00", "by": "ann", "record": record})

def ours():
    from_json(data, Entry, where="entry")

def plainly():
    msgspec.json.decode(data, type=Entry)

def ask_together(ask):
    ready = threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (ready.wait(), ask())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

def crashes(ask):
    child = os.fork()
    if child == 0:
        ask_together(ask)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0

print(sum(crashes(ours) for _ in range(60)), sum(crashes(plainly) for _ in range(60)))
"""


def test_threads_that_decode_a_type_concurrently_do_not_crash() -> None:
    """None of 60 processes whose threads decode their first journal entry at the same time crashes. Negative control:
    with a decoder per thread some processes crash.
    """
    script = [sys.executable, "-c", _TOGETHER]
    done = subprocess.run(script, capture_output=True, text=True, check=True, timeout=120)
    ours, plainly = map(int, done.stdout.split())
    assert ours == 0
    assert plainly > 0


def test_decoders_are_made_in_one_place() -> None:
    """Only ``model/coding.py`` creates decoders, because creating one elsewhere could coincide with decoding in a
    different thread.
    """
    root = Path(coding.__file__).parents[1]
    made = re.compile(r"json\.decode\([^)]*type=|json\.Decoder\(")
    found = {str(file.relative_to(root)) for file in root.rglob("*.py") if made.search(file.read_text())}
    assert found == {"model/coding.py"}
