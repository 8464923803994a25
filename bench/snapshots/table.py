"""Presents the measurements as tables and sentences: medians, the best peer of each row, and the goals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.snapshots.measure import OPERATIONS, Samples

FASTER = 10.0
FEWER = 50.0
RSS_MB = 150.0
_COLUMNS = ("wall_s", "cpu_s", "all_requests", "up_mb", "down_mb", "rss_mb")
_RATIOS = {"faster": "wall_s", "cheaper": "cpu_s", "fewer": "all_requests"}
_COPIERS = ("rclone", "s5cmd")


Figures = dict[str, dict[str, dict[str, float]]]
"""Maps a way to its operations, each operation to its columns, and each column to a value."""


def medians(samples: Samples) -> Figures:
    """Return the median of each column over the rounds."""
    return _over_rounds(samples, statistics.median)


def quickest(samples: Samples) -> Figures:
    """Return the minimum of each column over the rounds, which other work on the machine disturbs least."""
    return _over_rounds(samples, min)


def comparison(figures: Figures, peers: Sequence[str]) -> dict[str, Any]:
    """Return, by operation and way of ours, how many times less it needs than the best peer; the best peer can differ
    by column.

    ``faster`` compares with the quickest peer; ``cheaper`` with the one that uses the least CPU time, which is more
    reliable than the clock on a machine with other work; ``fewer`` with the one that makes the fewest requests;
    ``fewer_than_copiers`` with the one that makes the fewest among those that store an object for each file. ``best``
    names these peers.
    """
    found: dict[str, Any] = {}
    for operation in OPERATIONS:
        rows = {peer: figures[peer][operation] for peer in peers}
        best = {column: min(peers, key=lambda peer: rows[peer][column]) for column in _RATIOS.values()}
        copiers = [peer for peer in peers if peer in _COPIERS]
        row: dict[str, Any] = {"best": best}
        for way, operations in figures.items():
            if way in peers:
                continue
            own = operations[operation]
            row[way] = {ratio: round(rows[best[column]][column] / own[column], 2) for ratio, column in _RATIOS.items()}
            if copiers:
                least = min(rows[peer]["all_requests"] for peer in copiers)
                row[way]["fewer_than_copiers"] = round(least / own["all_requests"], 2)
        found[operation] = row
    return found


def print_table(title: str, figures: Figures, compared: dict[str, Any] | None = None) -> None:
    """Print the table of one checkpoint, with a block of rows for each operation."""
    table = Table(title=title, title_justify="left")
    for name in ("", "", "wall s", "client CPU s", "requests", "MB up", "MB down", "RSS MiB", "against the best peer"):
        table.add_column(name, justify="left" if not name or name.startswith("against") else "right")
    for operation in OPERATIONS:
        rows = [(way, each[operation]) for way, each in figures.items() if operation in each]
        for number, (way, own) in enumerate(rows):
            table.add_row(
                operation if number == 0 else "",
                way,
                f"{own['wall_s']:.2f}",
                f"{own['cpu_s']:.2f}",
                f"{own['all_requests']:,.0f}",
                f"{own['up_mb']:,.1f}",
                f"{own['down_mb']:,.1f}",
                f"{own['rss_mb']:.0f}",
                _told((compared or {}).get(operation, {}), way),
                end_section=number == len(rows) - 1,
            )
    Console(width=170).print(table)


def goals(compared: dict[str, Any], least: dict[str, Any], way: str) -> list[dict[str, Any]]:
    """Return the goals for one checkpoint and the figures that were reached; ``least`` is the comparison of the
    quickest rounds.
    """
    found = []
    for operation in ("full", "3 % changed", "restore"):
        row, quiet = compared[operation], least[operation]
        own, best = row[way], row["best"]
        found += [
            _goal(f"{operation}: times faster than {best['wall_s']}", own["faster"], FASTER),
            _goal(
                f"{operation}, quickest rounds: times faster than {quiet['best']['wall_s']}",
                quiet[way]["faster"],
                FASTER,
            ),
            _goal(f"{operation}: times fewer requests than {best['all_requests']}", own["fewer"], FEWER),
        ]
        if "fewer_than_copiers" in own:
            what = f"{operation}: times fewer requests than a tool that stores an object for each file"
            found.append(_goal(what, own["fewer_than_copiers"], FEWER))
    return found


def rss_goal(figures: Figures, way: str) -> dict[str, Any]:
    """Return the memory goal and the largest process of a way on the largest checkpoint."""
    most = max(each["rss_mb"] for each in figures[way].values())
    return {"goal": f"{way}: at most {RSS_MB:.0f} MiB", "is": most, "wanted": RSS_MB, "reached": most <= RSS_MB}


def _goal(what: str, found: float, wanted: float) -> dict[str, Any]:
    return {"goal": what, "is": found, "wanted": wanted, "reached": found >= wanted}


def _told(row: dict[str, Any], way: str) -> str:
    if way not in row:
        return "quickest peer" if row.get("best", {}).get("wall_s") == way else ""
    faster = row[way]["faster"]
    speed = f"{faster:.1f}x faster" if faster >= 1 else f"{1 / faster:.1f}x SLOWER"
    return f"{speed}, {_share(row[way]['cheaper'])} of the CPU time, {_share(row[way]['fewer'])} of the requests"


def _share(ratio: float) -> str:
    return f"1/{ratio:.1f}" if ratio >= 1 else f"{1 / ratio:.1f}x"


def _over_rounds(samples: Samples, one_of: Callable[[list[float]], float]) -> Figures:
    return {
        way: {
            operation: {column: round(one_of([getattr(each, column) for each in found]), 4) for column in _COLUMNS}
            for operation, found in operations.items()
            if found
        }
        for way, operations in samples.items()
    }
