"""``python -m conformance.mutants``: change one thing in the code at a time, and see whether a fast test detects it.

--seed N          the seed of the mutants' order (1)
--count N         run the first N mutants of that order (200)
--packages a,b    mutate these packages below plugins/streamkeeper (the nine whose results are published)
--only a,b        run only the mutants with these ids
--survivors       rerun the mutants that survived an earlier state of the tests
--far             also run the tests that import a module that imports the mutated one
--with s3,…       also run the slow tests with these markers, and no other slow tests
--minutes M       start no further mutant after M minutes (no limit)
--workers N       run N workers in parallel, each with its own clone (1)
--results FILE    one line per mutant (bench/results/mutants.jsonl); mutants with a line are not rerun
--score           only print the table of the results
--list            only print the mutants
"""

from __future__ import annotations

import argparse
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from conformance.mutants.results import (
    RESULTS,
    Line,
    Outcome,
    append_line,
    key_of,
    read_lines,
    read_reasons,
    render_score,
)
from conformance.mutants.running import Runner, UnusableTests
from conformance.mutants.selection import Selection
from conformance.mutants.sites import Site, draw, sites_of
from harness.places import ROOT

CODE = "plugins/streamkeeper"
PACKAGES = "driver,lifecycle,operations,snapshots,sinks,stores,registry,runners,compatibility"


def main() -> int:
    """Run the command; return 1 if a mutant survives without a recorded reason, 2 if the tests cannot judge a
    mutant.
    """
    chosen = _arguments()
    # A shell's background processes ignore SIGINT.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    packages = [f"{CODE}/{each}" for each in chosen.packages.split(",")]
    if chosen.score:
        present = {site.id for package in packages for site in sites_of(ROOT, package)}
        lines = [line for line in read_lines(chosen.results).values() if line.file.startswith(tuple(packages))]
        print(render_score(lines, read_reasons(), present))
        return 0
    runners: list[Runner] = []
    try:
        selection = Selection(
            ROOT, helpers=("harness", "bench", "chaos", "conformance"), allowed=chosen.allowed.split(",")
        )
        runners += [Runner(ROOT, selection, far=chosen.far) for _ in range(chosen.workers)]
        # The clone has the commit's text, and the working tree may differ from it.
        wanted = list(_wanted(chosen, runners[0], packages))
        if chosen.list:
            print("\n".join(f"{site.id} {site.file}:{site.line} {site.kind}: {site.change}" for site in wanted))
            return 0
        return _run_all(wanted, runners, chosen)
    finally:
        for runner in runners:
            runner.close()


def _wanted(chosen: argparse.Namespace, runner: Runner, packages: list[str]) -> Iterator[Site]:
    known = read_lines(chosen.results)
    drawn = draw(runner.tree, packages, chosen.seed)
    if chosen.only or chosen.survivors:
        only = frozenset(chosen.only.split(",")) if chosen.only else _survivors(known, runner.tests)
        yield from (site for site in drawn if site.id in only)
    else:
        yield from (site for site in islice(drawn, chosen.count) if site.id not in known)


def _survivors(known: dict[str, Line], tests: str) -> frozenset[str]:
    return frozenset(
        id for id, line in known.items() if line.outcome is Outcome.SURVIVED and line.key != key_of(line.source, tests)
    )


def _run_all(wanted: list[Site], runners: list[Runner], chosen: argparse.Namespace) -> int:
    """Run all mutants; each runner takes the next mutant from a shared queue. Return the exit code."""
    until = time.monotonic() + 60 * chosen.minutes
    left: queue.SimpleQueue[Site] = queue.SimpleQueue()
    for site in wanted:
        left.put(site)
    lock, reasons, codes = threading.Lock(), read_reasons(), {0}

    def work(runner: Runner) -> None:
        while time.monotonic() < until:
            try:
                site = left.get_nowait()
                line = runner.run(site, chosen.seed)
            except queue.Empty:
                return
            except UnusableTests as error:
                print(f"{site.id} {error}", file=sys.stderr, flush=True)
                codes.add(2)
                continue
            with lock:
                append_line(chosen.results, line)
                _show(line)
            codes.add(int(line.outcome is Outcome.SURVIVED and line.id not in reasons))

    if len(runners) == 1:
        work(runners[0])
    else:
        threads = [threading.Thread(target=work, args=(runner,), daemon=True) for runner in runners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(f"{left.qsize()} of {len(wanted)} mutants are left")
    return max(codes)


def _show(line: Line) -> None:
    place = f"{line.file.removeprefix(CODE + '/')}:{line.line}"
    print(f"{line.seconds:6.1f} s {line.outcome:8} {line.id} {place} {line.kind}: {line.change[:90]}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="conformance.mutants", description="Mutants of the code against the fast tests."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--packages", default=PACKAGES)
    parser.add_argument("--only", default="")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--far", action="store_true")
    parser.add_argument("--with", dest="allowed", default="")
    parser.add_argument("--minutes", type=float, default=10_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--score", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
