"""Each figure on the performance page equals the one in its raw file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from statistics import median
from typing import Any

import pytest

from harness.places import ROOT

PAGE = ROOT / "docs/internals/performance.md"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.]*\w)")


@cache
def raw(name: str) -> Any:
    return json.loads((ROOT / f"bench/results/{name}.json").read_text())


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without the header rows."""
    part = f"\n{PAGE.read_text()}".split(f"\n{heading}\n", 1)[1]
    rows = [line for line in part.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def numbers(*cells: str) -> list[str]:
    """Return the numbers in cells in order, ignoring names in backticks and commits."""
    text = " ".join(re.sub(r"`[^`]*`|\b[0-9a-f]{7,8}\b", "", cell) for cell in cells)
    return NUMBER.findall(text)


def half_up(value: float, digits: int) -> str:
    """Round a value half up, as a person does: 0.145 becomes 0.15."""
    return str(Decimal(str(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def starts() -> list[str]:
    """The start time of each command now and before, and the ratios to a bare import of Typer."""
    found, names = raw("first-second"), ("help", "jobs", "status", "deploy")
    now, before = ([found[when][name]["wall_s"] for name in names] for when in ("now", "before"))
    ratios = [found["now"][name]["wall_to_typer"] for name in ("help", "jobs", "status")]
    last = found["now"]["deploy"]["wall_to_typer"]
    walls = [half_up(each, 2) for each in (*now, *before, found["floors"]["typer"]["wall_s"])]
    return [*walls, *(half_up(each, 1) for each in (*ratios, last))]


def handover(name: str, digits: tuple[int, int], keys: tuple[str, ...] = ("10",)) -> list[str]:
    found = raw(name)["keys"]
    warm = [half_up(found[key]["median"]["warm"], digits[0]) for key in keys]
    plain = [half_up(found[key]["median"]["plain"], digits[1]) for key in keys]
    return [*warm, *plain, *(half_up(found[key]["ratio"], 2) for key in keys)]


def step(name: str, of: str, what: str) -> str:
    """Return a figure of one step of a demonstration."""
    steps = [each for act in raw(name)["acts"] for each in act["steps"] if each["name"] == of]
    assert len(steps) == 1, of
    return half_up(steps[0][what], 1)


def passes(what: str, digits: int = 0) -> list[str]:
    return [half_up(raw(name)["all"][what], digits) for name in ("watch", "watch-s3")]


def of_a_pass() -> list[str]:
    here, there = raw("watch")["all"], raw("watch-s3")["all"]
    on_s3 = sorted(round(there[each]) for each in ("second_pass_s", "third_pass_s"))
    assert round(here["second_pass_s"], 1) == round(here["third_pass_s"], 1)
    return [half_up(here["second_pass_s"], 1), *map(str, on_s3)]


def of_jobs() -> list[str]:
    here, there = raw("watch")["all"], raw("watch-s3")["all"]
    return [half_up(each[what], 1) for what in ("jobs_s", "jobs_now_s") for each in (here, there)]


def of_a_batch() -> list[str]:
    """The smallest and largest of three runs: the own work in steps of half a millisecond, the batch in tens of
    milliseconds.
    """
    runs = [raw("driver"), raw("before-after")["before"]["driver"], raw("before-after")["after"]["driver"]]
    work = [round(2 * each["own_work_per_batch_ms"]) / 2 for each in runs]
    whole = [int(each["batch_wall_ms"] // 10 * 10) for each in runs]
    told = [f"{min(work):g}", f"{max(work):g}", str(min(whole)), str(max(whole))]
    assert {each["store_requests_per_batch"] for each in runs} == {3.0}
    return told


def of_local_files() -> list[str]:
    ours, hadoops = (raw("local-files")["a_batch"][each] for each in ("ours", "hadoops"))
    return [half_up(each[what], 0) for each in (ours, hadoops) for what in ("ms", "cpu_ms", "processes")]


def requests(job: str) -> list[str]:
    return [half_up(raw("s3-requests")[who][job]["requests"], 1) for who in ("served", "alone")]


def races() -> list[str]:
    ours, sparks = raw("checkpoint-races")["ours"], raw("checkpoint-races")["sparks"]
    assert sparks["two_won"] > sparks["rounds"] / 2
    return [str(ours["one_won"]), str(ours["rounds"])]


def switching() -> list[str]:
    found = raw("switching")["rebuild"]
    assert len(found["samples"]) == 7, "the row says seven"
    return [half_up(found["median_gap_s"], 1), half_up(found["longest_gap_s"], 1)]


def check() -> list[str]:
    found = raw("check")["cold"]
    return [*(half_up(found["median"][each], 1) for each in ("check", "bare")), half_up(found["ratio"], 2)]


def candidates() -> list[str]:
    few, many = (median(raw("check")["further_s"][each]) for each in ("10", "1000"))
    return [half_up(few, 1), "10", half_up(many, 1), "1,000"]


def snapshots() -> list[str]:
    medians = raw("before-after")["after"]["snapshots"]["checkpoints"]["generated"]["medians"]
    return [f"{medians[each]['full']['all_requests']:,.0f}" for each in ("ours", "s5cmd")]


def page() -> list[str]:
    found = raw("page")["behind_airflow"]
    return [half_up(found["fleet"]["first_byte_ms"], 0), half_up(found["drawn_s"], 1)]


ROWS: list[tuple[str, Callable[[], list[str]]]] = [
    ("first-second", starts),
    ("handover", lambda: with_keys(handover("handover", (1, 0), ("10", "1000000")))),
    (
        "demo",
        lambda: [
            step("demo", "event_copy: falls back", "handover_gap_s"),
            step("demo", "sales_totals: rollback", "handover_gap_s"),
            step("demo", "sales_totals: resume", "handover_gap_s"),
        ],
    ),
    (
        "demo",
        lambda: [
            step("demo", "sales_totals: rollback", "first_commit_s"),
            step("demo", "sales_totals: first release", "first_commit_s"),
        ],
    ),
    ("switching", switching),
    ("check", check),
    ("check", candidates),
    ("driver", of_a_batch),
    ("local-files", of_local_files),
    ("s3-requests", lambda: requests("event_copy")),
    ("s3-requests", lambda: requests("sales_totals")),
    ("checkpoint-races", races),
    ("handover-elsewhere", lambda: handover("handover-elsewhere", (1, 1))),
    ("handover-on-yarn", lambda: handover("handover-on-yarn", (1, 1))),
    ("handover-on-kubernetes", lambda: handover("handover-on-kubernetes", (0, 0))),
    ("demo-storage", lambda: [step("demo-storage", f"event_counts: {each}", "handover_gap_s") for each in WAYS]),
    ("demo-cluster", lambda: [step("demo-cluster", f"event_counts: {each}", "handover_gap_s") for each in WAYS]),
    ("before-after", snapshots),
    ("watch", of_a_pass),
    ("watch", lambda: passes("first_pass_s")),
    ("watch", lambda: passes("all_dead_pass_s")),
    ("watch", of_jobs),
    ("page", page),
    ("memory", lambda: []),
]
"""The rows of the table in order: the first raw file that each names, and its numbers from there."""
WAYS = ("resume", "rebuild")


def with_keys(told: list[str]) -> list[str]:
    return [told[0], "10", *told[1:]]


def test_every_row_is_compared() -> None:
    """Every row of the performance table has an entry in ``ROWS``, in the same order."""
    assert [row[3].split(".json")[0].strip("`") for row in table("# Performance")] == [name for name, _ in ROWS]


@pytest.mark.parametrize("at", range(len(ROWS)), ids=[f"{at}-{name}" for at, (name, _) in enumerate(ROWS)])
def test_a_row_has_the_numbers_of_its_raw_file(at: int) -> None:
    """A row contains exactly the numbers of its raw file, in order and rounded to the row's digits."""
    row = table("# Performance")[at]
    assert numbers(row[1], row[2]) == ROWS[at][1]()


def test_a_raw_file_names_its_commit() -> None:
    """Every raw file of the page contains the commit of the code and the number of cores, 2."""
    texts = {name: json.dumps(raw(name)) for name, _ in ROWS}
    assert not [name for name, text in texts.items() if '"commit": "' not in text]
    assert not [name for name, text in texts.items() if '"cores": 2' not in text]


def test_memory_does_not_grow() -> None:
    """The heap after a full collection is no larger at the end of a run of at least 30 minutes than at its first
    measurement.
    """
    looks = raw("memory")["looks"]
    assert looks[-1]["live_mib"] <= looks[0]["live_mib"]
    assert looks[-1]["minute"] >= 30


def test_the_before_and_after_table_has_the_figures_of_its_raw_file() -> None:
    """The table *Before and after* contains the figures of both sides of its raw file."""
    before, after = raw("before-after")["before"], raw("before-after")["after"]
    gaps = [
        half_up(each["handover"]["keys"]["10"]["median"][way], digits)
        for each in (before, after)
        for way, digits in (("warm", 2), ("plain", 1))
    ]
    work = [
        half_up(each["driver"][what], digits)
        for each in (before, after)
        for what, digits in (("own_work_per_batch_ms", 1), ("batch_wall_ms", 0))
    ]
    ratios = [half_up(each["check"]["cold"]["ratio"], 2) for each in (before, after)]
    more = [half_up(each["check"]["further_median_s"], 2) for each in (before, after)]
    assert [numbers(*row[1:]) for row in table("## Before and after")] == [gaps, work, ratios, more]


def test_the_repeated_table_has_the_figures_of_its_raw_file() -> None:
    """The table *Repeated on an idle machine* contains the figures of both sides of its raw file."""
    sides = [raw("ports-before-after")["repeated"][when] for when in ("before", "after")]
    names = ("own_work_per_batch_ms", "batch_wall_ms")
    alone = [half_up(side["driver"][name], 0) for side in sides for name in names]
    busy = [half_up(side["driver"]["busy"][name], 0) for side in sides for name in names]
    ratios = [half_up(side["check"]["cold"]["ratio"], 2) for side in sides]
    more = [half_up(median(side["check"]["further_s"][batches]), 2) for side in sides for batches in ("10", "1000")]
    assert [numbers(*row[1:]) for row in table("### Repeated on an idle machine")] == [alone, busy, ratios, more]


def test_the_table_of_outputs_has_the_figures_of_its_raw_file() -> None:
    """The table *Outputs* has a row for each sink and each writer of Spark that it is compared with: the rows per
    second of both, in thousands, and their ratio.
    """
    found = raw("sinks")
    assert (found["rows"], found["batches"], len(found["seconds"]["FileSink"])) == (1_000_000, 10, 3)
    wanted = [
        [sink, peer, half_up(found["rows_per_s"][sink] / 1000, 0), half_up(found["rows_per_s"][peer] / 1000, 0), ratio]
        for sink, peers in found["ratio_to_spark"].items()
        for peer, ratio in ((peer, half_up(ratio, 2)) for peer, ratio in peers.items())
    ]
    assert table("## Outputs") == wanted
    before = raw("sinks-insert")["rows_per_s"]
    told = [half_up(before[name] / 1000, 0) for name in ("TableSink", "JDBC")]
    assert f"wrote {told[0]} thousand rows per second, and JDBC {told[1]} thousand" in PAGE.read_text()
