"""Tests an instance's log: whole redacted lines within a limited size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamkeeper.runners.driver_log import LONGEST_LINE_BYTES, DriverLog

SECRET = {"secret://env/S": "hunter2"}


def test_output_in_pieces_becomes_whole_lines(tmp_path: Path) -> None:
    """Output that arrives in pieces is logged as whole lines, and a secret or a character that is split between pieces
    is still recognized.
    """
    log = DriverLog(tmp_path / "logs" / "one.log", SECRET)
    for piece in (b"one h", b"unter2 \xc3", b"\xa4\r\ntw", b"o\n\n", b"rest hun", b"ter2"):
        log.feed(piece)
    log.flush()
    log.flush()
    assert (tmp_path / "logs" / "one.log").read_text() == "one *** ä\ntwo\n\nrest ***\n"
    assert log.last_line == "rest ***"


@pytest.mark.parametrize("shift", range(12))
def test_a_secret_at_the_cut_of_a_very_long_line_is_masked(tmp_path: Path, shift: int) -> None:
    """A line over the length limit is written in pieces, and a secret at the cut is still masked."""
    path = tmp_path / "one.log"
    log = DriverLog(path, SECRET)
    log.feed(b"x" * (LONGEST_LINE_BYTES - shift) + b"hunter2"[: shift + 1])
    log.feed(b"hunter2"[shift + 1 :] + b" end\n")
    text = path.read_text().replace("\n", "")
    assert "unte" not in text
    assert text.endswith("*** end")


def test_a_secret_of_arbitrary_bytes_is_masked_in_the_log(tmp_path: Path) -> None:
    """A secret from an environment variable that contains arbitrary bytes is masked in the log."""
    raw = b"pass\xff\xfeword"
    log = DriverLog(tmp_path / "one.log", {"secret://env/S": raw.decode(errors="surrogateescape")})
    log.feed(b"it is " + raw + b" here\n")
    assert (tmp_path / "one.log").read_text() == "it is *** here\n"


def test_a_log_does_not_outgrow_its_limit(tmp_path: Path) -> None:
    """The log consists of at most two files of about the limit, which contain the newest lines without a gap."""
    path = tmp_path / "one.log"
    log = DriverLog(path, {}, limit_bytes=1000)
    for number in range(500):
        log.feed(b"line %d\n" % number)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.log", "one.log.1"]
    assert all(each.stat().st_size < 1100 for each in tmp_path.iterdir())
    kept = (tmp_path / "one.log.1").read_text() + path.read_text()
    assert kept.splitlines() == [f"line {number}" for number in range(500 - len(kept.splitlines()), 500)]


def test_a_second_log_on_the_same_file_appends_to_it(tmp_path: Path) -> None:
    """A second log on the same file appends to the existing lines."""
    (tmp_path / "one.log").write_text("before\n")
    DriverLog(tmp_path / "one.log", {}, job="sales", instance="r7").write_line("after")
    lines = (tmp_path / "one.log").read_text().splitlines()
    assert lines[0] == "before"
    assert lines[1].endswith("INFO streamkeeper.supervisor job=sales instance=r7: after")


def test_a_full_disk_loses_lines_but_never_stops_the_driver(tmp_path: Path) -> None:
    """When the disk is full, lines are lost without an error, and their number is logged once there is room."""
    log = DriverLog(tmp_path / "one.log", {})
    good, full = log._file, os.open("/dev/full", os.O_WRONLY)
    log._file = full
    log.feed(b"lost\n")
    log.feed(b"lost too\n")
    log._file = good
    os.close(full)
    log.feed(b"kept\n")
    assert (tmp_path / "one.log").read_text() == "(2 pieces of output were lost: the disk was full)\nkept\n"


def test_a_secret_is_masked_only_in_the_message_of_a_log_line(tmp_path: Path) -> None:
    """A secret is masked in the message of a log line, but not in its time, level and job, even if it is a digit or the
    job's name.
    """
    DriverLog(tmp_path / "one.log", {"secret://env/A": "2", "secret://env/B": "sales"}, job="sales").write_line(
        "sales: 2 left"
    )
    (line,) = (tmp_path / "one.log").read_text().splitlines()
    head, _, sentence = line.partition(" INFO streamkeeper.supervisor job=sales: ")
    assert head.startswith("20")
    assert sentence == "***: *** left"
