"""The figures on further pages of the documentation equal those in the raw result files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from statistics import median
from typing import Any

import pytest

from harness.places import ROOT
from tests.bench.test_performance_page import half_up, raw
from tests.conformance.test_unions import SEEDS_OF_SWITCHES, lines_of

CAMPAIGNS, COMPATIBILITY = "internals/campaigns.md", "reference/compatibility.md"
ARCHITECTURE, CLUSTERS, GUARANTEES = "internals/architecture.md", "guides/clusters.md", "internals/guarantees.md"
SNAPSHOTS, MANAGER = "decisions/0010-snapshots.md", "decisions/0021-checkpoints-on-s3-by-a-manager-of-our-own.md"

Lines = list[dict[str, Any]]


@cache
def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / "docs" / page).read_text())


def cases_of(name: str, case: str, commit: str = "") -> Lines:
    """Return the cases whose names match, of one commit or of all; fail if there are none or if one has damage."""
    found = [
        each for each in lines_of(name) if re.match(case, each.get("case", "")) and each["commit"].startswith(commit)
    ]
    assert found, f"{name} has no {case}"
    assert not [each["case"] for each in found if each["damage"]], f"{name}: {case} at {commit} has damage"
    return found


def points_of(cases: Lines) -> set[str]:
    return {point for case in cases for point in case["hits"]}


def of_housekeeping() -> str:
    newest = lines_of("housekeeping")[-1]["code"]
    cases = [each for each in cases_of("housekeeping", ".") if each["code"] == newest]
    return f"{len(cases)} cases at {len(points_of(cases))} points"


def of_stops() -> str:
    cases = cases_of("recover-crash", ".", "02cb6ac")
    return f"{len(points_of(cases))} points that these commands reach were hit at 02cb6ac"


def of_rebuilds() -> str:
    """The points that only a rebuild reaches: most were hit at one commit, the rest at a later one."""
    first, later = (cases_of("recover-crash", "recover-rebuild", each) for each in ("71bce79", "9dbdb63"))
    assert (len(first), len(later)) == (2, 4)
    both = points_of(first) | points_of(later)
    return f"Of the {len(both)} points that only a rebuild reaches, {len(points_of(first))} were hit"


def of_random_recoveries() -> str:
    seeds = cases_of("recover-crash", "seed:", "9dbdb63")
    assert sum(not each["hits"] for each in seeds) == 3
    return f"{len(seeds)} seeds over all of these commands were run at 9dbdb63"


def of_switches() -> Lines:
    return [each for each in cases_of("switch-crash", "seed:") if each["commit"] in SEEDS_OF_SWITCHES]


def of_strikes() -> str:
    runs = of_switches()
    assert sum(not each["hits"] for each in runs) == 6
    return f"{len(runs)} runs with {sum(len(each['hits']) for each in runs)} kills and freezes; six"


def of_readers() -> str:
    return f"at least {min(each['looks_per_s'] for each in cases_of('switch-crash', '.*/points:')):g} times a second"


def at_one_commit(name: str, commit: str) -> str:
    return f"{len(cases_of(name, 'seed:', commit))} seeds"


def of_the_matrix() -> list[str]:
    """The table of verdicts, separated by whether Spark's outcome is safe."""
    graded = lines_of("matrix")
    unsafe = {False: Counter[str](), True: Counter[str]()}
    for each in graded:
        safe = each["truth"]["outcome"] in ("ACCEPTED_CORRECT", "ACCEPTED_IGNORED")
        unsafe[not safe][each["answer"]["verdict"]] += 1
    return [
        f"{len(graded)} cases for {len({each['id'] for each in graded})} changes",
        f"({unsafe[True].total()}) | **{unsafe[True]['RESUME']}** unsafe | {unsafe[True]['BACKUP']} |"
        f" {unsafe[True]['SWITCH']} | {unsafe[True]['REFUSE']}",
        f"({unsafe[False].total()}) | {unsafe[False]['RESUME']} | {unsafe[False]['BACKUP']} |"
        f" {unsafe[False]['SWITCH']}",
        f"at commit {graded[0]['commit'][:7]}",
    ]


def of_local_files() -> str:
    ours, hadoops = (raw("local-files")["a_batch"][each]["ms"] for each in ("ours", "hadoops"))
    return f"{half_up(ours, 0)} ms instead of {half_up(hadoops, 0)}"


def of_memory() -> str:
    live = {look["minute"]: half_up(look["live_mib"], 0) for look in raw("memory")["looks"]}
    assert live[20.0] == live[30.0]
    return f"{live[20.0]} MiB of live Java objects"


def of_a_drivers_work() -> str:
    parts = [half_up(raw("driver")[f"{each}_per_batch_ms"], 1) for each in ("own_work", "gate", "progress", "status")]
    return "{} ms per batch on average: {} ms for the gate, {} ms for the progress, {} ms for the status".format(*parts)


def of_requests(job: str, name: str) -> str:
    served, alone = (raw("s3-requests")[who][job] for who in ("served", "alone"))
    kinds = Counter[str]()
    for kind, count in served["by_kind"].items():
        kinds[kind.split()[1]] += count
    cells = (kinds["PUT"] + kinds["LIST"], kinds["GET"] + kinds["HEAD"], kinds["DELETE"])
    told = " | ".join(half_up(each, 1) for each in (*cells, served["requests"], alone["requests"]))
    return f"{name} | {told} |"


def of_races() -> str:
    ours = raw("checkpoint-races")["ours"]
    faults = ours["faults"]
    won = f"{ours['one_won']} of {ours['rounds']} rounds"
    return (
        f"{won} exactly one of two writers wins, with {faults['lost']} lost responses and {faults['refused']} refused"
    )


def of_the_check() -> list[str]:
    cold, further = raw("check")["cold"], raw("check")["further_s"]
    seconds = [half_up(cold["median"][each], 1) for each in ("check", "bare")]
    assert len(cold["check"]) == len(cold["bare"]) == len(further["10"]) == 5
    return [
        f"{seconds[0]} s compared with {seconds[1]} s: {cold['ratio']} times",
        f"(median of 5) | {half_up(median(further['10']), 1)} s |",
        f"{raw('check')['many_to_few']:.2f} times, with other work on the machine",
    ]


def of_candidates() -> str:
    seconds = raw("check-candidates")["seconds"]
    return f"{half_up(median(seconds), 1)} s (median of {len(seconds)})"


def of_reviewed_edits() -> list[str]:
    second = lines_of("reviewed-edits-2")
    dangerous, harmless = ([each for each in second if each["label"] == label] for label in ("dangerous", "harmless"))
    assert not [each["id"] for each in dangerous if each["verdict"] == "RESUME"]
    verdicts = Counter(each["verdict"] for each in harmless)
    return [
        f"None of {len(dangerous)} dangerous edits resumes",
        f"Of {len(harmless)} harmless edits, {verdicts['RESUME']} resume",
        f"{verdicts['BACKUP']} harmless edits need an approval",
        f"{verdicts['SWITCH']} harmless edits switch",
    ]


def of_snapshots() -> list[str]:
    """One row per tool: the shortest time and the median number of requests of three operations on two checkpoints."""
    names = {
        "ours, command line": "Streamkeeper's command line",
        "ours": "Streamkeeper's engine, without the command",
        "ours, whole directory": "Streamkeeper's engine, the whole directory",
        "restic": "restic 0.14",
        "rclone": "rclone 1.60",
        "s5cmd": "s5cmd 2.3",
    }
    return [f"| {told} | {' | '.join(_cells(way))} |" for way, told in names.items()]


def _cells(way: str) -> list[str]:
    checkpoints = raw("snapshots")["checkpoints"]
    samples = [
        checkpoints[name]["samples"][way][operation]
        for name in ("generated", "made by Spark, RocksDB with changelogs")
        for operation in ("full", "3 % changed", "restore")
    ]
    return [f"{two_digits(min(each['wall_s'] for each in rounds))} / {requests_of(rounds):,}" for rounds in samples]


def requests_of(rounds: Lines) -> int:
    return median(sum(each["requests"].values()) for each in rounds)


def two_digits(seconds: float) -> str:
    return half_up(seconds, 2 if seconds < 1 else 1 if seconds < 10 else 0)


def of_whole_fuzz() -> str:
    answers = [each for each in lines_of("fuzz") if each["commit"].startswith("2f3d63d") and not each.get("rehearsed")]
    return f"At commit 2f3d63d the rules alone, without a rehearsal, answered {len(answers):,} pairs"


FIGURES: list[tuple[str, Callable[[], str | list[str]]]] = [
    (CAMPAIGNS, of_housekeeping),
    (CAMPAIGNS, of_stops),
    (CAMPAIGNS, of_rebuilds),
    (CAMPAIGNS, of_random_recoveries),
    (CAMPAIGNS, of_strikes),
    (CAMPAIGNS, of_readers),
    (GUARANTEES, of_readers),
    (CAMPAIGNS, lambda: f"{at_one_commit('switch-crash-hdfs', '468494c')} were run at 468494c"),
    (GUARANTEES, lambda: f"{at_one_commit('broker-crash', '468494c')} at 468494c"),
    (COMPATIBILITY, of_the_matrix),
    (COMPATIBILITY, of_the_check),
    (COMPATIBILITY, of_candidates),
    (COMPATIBILITY, of_reviewed_edits),
    (COMPATIBILITY, of_whole_fuzz),
    (ARCHITECTURE, of_local_files),
    (ARCHITECTURE, of_memory),
    (ARCHITECTURE, of_a_drivers_work),
    (CLUSTERS, lambda: of_requests("event_copy", "files, no state")),
    (CLUSTERS, lambda: of_requests("sales_totals", "files, an aggregation over two partitions")),
    (MANAGER, of_races),
    (SNAPSHOTS, of_snapshots),
]
"""Page -> the words that it must contain, with the numbers of the raw file."""


@pytest.mark.parametrize(("page", "told"), FIGURES)
def test_a_page_has_the_figures_of_its_raw_file(page: str, told: Callable[[], str | list[str]]) -> None:
    """Each page contains the figures that are computed from its raw result file, so neither can change alone."""
    words = told()
    for each in [words] if isinstance(words, str) else words:
        assert each in text_of(page), f"docs/{page} has nowhere: {each}"
