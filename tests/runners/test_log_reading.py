"""Tests reading a driver's log while it is written: the last lines, new lines, and log rotation."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.runners.driver_log import DriverLog
from streamkeeper.runners.log_reading import Follower, last_lines


def log(tmp_path: Path, *, limit_bytes: int = 10_000_000) -> tuple[Path, DriverLog]:
    path = tmp_path / "one.log"
    return path, DriverLog(path, {"secret://env/X": "hunter22"}, limit_bytes=limit_bytes)


def test_the_last_lines_of_a_large_log_are_returned_exactly(tmp_path: Path) -> None:
    """The last lines of a large log are returned exactly; a larger number returns all lines, and 0 or a missing file
    returns none.
    """
    path, written = log(tmp_path)
    written.feed("".join(f"line {n} {'x' * 90}\n" for n in range(5000)).encode())
    lines, offset = last_lines(path, 2000)
    assert [each.split()[1] for each in lines] == [str(n) for n in range(3000, 5000)]
    assert offset == path.stat().st_size
    assert len(last_lines(path, 10_000)[0]) == 5000
    assert last_lines(path, 0)[0] == []
    assert last_lines(tmp_path / "none.log", 5) == ([], 0)


def test_the_last_lines_include_the_previous_file_after_a_rotation(tmp_path: Path) -> None:
    """Shortly after a rotation, the last lines include those of the previous file."""
    path, written = log(tmp_path, limit_bytes=100)
    for number in range(12):
        written.feed(f"line {number} {'x' * 20}\n".encode())
    lines, _ = last_lines(path, 5)
    assert [each.split()[1] for each in lines] == ["7", "8", "9", "10", "11"]


def test_a_follower_returns_every_whole_line_once_across_rotations(tmp_path: Path) -> None:
    """A follower returns every line exactly once across rotations, and returns an incomplete line only once it is
    complete.
    """
    path, written = log(tmp_path, limit_bytes=200)
    written.feed(b"before\n")
    follower = Follower(path, last_lines(path, 1)[1])
    seen: list[str] = []
    for number in range(60):
        written.feed(f"line {number}\nhal".encode())
        if number % 3 == 0:
            seen += follower.read()
        written.feed(b"f\n")
    seen += follower.read()
    follower.close()
    assert [each for each in seen if each != "half"] == [f"line {n}" for n in range(60)]
    assert seen.count("half") == 60


def test_a_secret_is_masked_when_the_log_is_written(tmp_path: Path) -> None:
    """A secret is masked when the log is written, so that reading it cannot reveal the secret."""
    path, written = log(tmp_path)
    written.feed(b"opened hunter22\n")
    assert "hunter22" not in "".join(last_lines(path, 5)[0])
