"""Runs mutants in a clone of the current commit below a temporary folder, never in the working tree.

Tests are flaky on a loaded machine, so each kill is confirmed: the failing test must pass without the mutant. A test
that takes long must also fail twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psutil

from conformance.mutants.results import Line, Outcome
from conformance.mutants.selection import Selection
from conformance.mutants.sites import Site

STAGE_LIMIT_S = 900
LONG_S = 5
_MARK = "MUTANT_RUN"
_NOTHING_RAN = 5


class Ran(msgspec.Struct, frozen=True):
    """The result of the tests of one stage."""

    passed: int
    failed: str = ""
    """The first test that failed or did not finish."""
    seconds: float = 0
    timeout: bool = False
    log: str = ""


class UnusableTests(Exception):
    """The tests cannot judge a mutant: none of them ran, or a module fails without the mutant too."""


class Runner:
    """A clone of a repository's current commit, with a worker process that runs tests in it."""

    def __init__(self, root: Path, selection: Selection, *, far: bool = False, test_limit_s: int = 180) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self.tree = self._folder / "tree"
        self._selection, self._far = selection, far
        self._options = [
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            selection.markers,
            f"--basetemp={self._folder / 't'}",
        ]
        self._options += [f"--timeout={test_limit_s}", "--timeout-method=thread", "--tb=line"]
        # The libraries are loaded before pytest can rewrite their assertions.
        self._options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        self._sound: set[str] = set()
        self._text = ""
        self._tag = uuid4().hex
        self._worker: subprocess.Popen[bytes] | None = None
        _git(root, "clone", "--quiet", "--shared", str(root), str(self.tree))
        if (root / ".venv").exists():
            (self.tree / ".venv").symlink_to((root / ".venv").resolve())
        self.commit = _git(self.tree, "rev-parse", "--short", "HEAD")
        self.tests = _git(self.tree, "rev-parse", "HEAD:tests")[:12]

    def close(self) -> None:
        """Stop the worker and all processes that it has left, and delete the clone."""
        if self._worker is not None:
            self._worker.kill()
            with contextlib.suppress(BrokenPipeError):
                self._worker.communicate()
        self._end_leftovers()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, site: Site, seed: int) -> Line:
        """Run the tests against one mutant until a test fails; return the result."""
        started, passed, killer = time.monotonic(), 0, None
        with self._mutated(site):
            for stage in self._selection.stages(site.file, far=self._far):
                killer, count = self._killer(site, stage)
                passed += count
                if killer is not None:
                    break
        if killer is None and not passed:
            raise UnusableTests(f"no fast test ran for {site.file}")
        outcome = Outcome.SURVIVED if killer is None else Outcome.TIMEOUT if killer.timeout else Outcome.KILLED
        return Line(
            id=site.id,
            seed=seed,
            file=site.file,
            line=site.line,
            function=site.function,
            kind=site.kind,
            change=site.change,
            source=site.source,
            tests=self.tests,
            outcome=outcome,
            test=killer.failed if killer else "",
            passed=passed,
            markers=self._selection.markers,
            seconds=round(time.monotonic() - started, 1),
            commit=self.commit,
        )

    def _killer(self, site: Site, stage: Sequence[str]) -> tuple[Ran | None, int]:
        """Run one stage; return the run whose failure the mutant caused (None without one), and the number of tests
        that passed.
        """
        passed, skipped = 0, list[str]()
        while True:
            ran = self._test([*stage, *(f"--deselect={each}" for each in skipped)])
            passed = max(passed, ran.passed)
            if not ran.failed:
                return None, passed
            if ran.seconds > LONG_S and not self._test([ran.failed]).failed:
                skipped.append(ran.failed)
                continue
            if self._is_sound(site, ran.failed):
                return ran, passed
            if "::" not in ran.failed:
                raise UnusableTests(f"{ran.failed} fails without a mutant:\n{ran.log}")
            skipped.append(ran.failed)

    def _is_sound(self, site: Site, test: str) -> bool:
        if test in self._sound:
            return True
        file = self.tree / site.file
        _write(file, self._text)
        try:
            if not self._test([test]).failed:
                self._sound.add(test)
        finally:
            _write(file, site.apply(self._text))
        return test in self._sound

    @contextlib.contextmanager
    def _mutated(self, site: Site) -> Iterator[None]:
        file = self.tree / site.file
        self._text = file.read_text()
        _write(file, site.apply(self._text))
        try:
            yield
        finally:
            _write(file, self._text)

    def _test(self, arguments: Sequence[str]) -> Ran:
        report, log = self._folder / "report.jsonl", self._folder / "log"
        report.write_text("")
        log.write_text("")
        request = {"args": [*self._options, *arguments], "report": str(report), "log": str(log), "limit": STAGE_LIMIT_S}
        code = self._ask(request)
        self._end_leftovers()
        shutil.rmtree(self._folder / "t", ignore_errors=True)
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        passed = sum(1 for line in lines if line.get("passed"))
        for line in lines:
            if line.get("passed") is False:
                return Ran(passed, line["test"], line["seconds"], log=log.read_text()[-2000:])
        if code in (0, _NOTHING_RAN):
            return Ran(passed)
        ended = {line["test"] for line in lines if "test" in line}
        begun = [line["started"] for line in lines if line.get("started") and line["started"] not in ended]
        if begun:
            return Ran(passed, begun[-1], STAGE_LIMIT_S, timeout=True, log=log.read_text()[-2000:])
        if code is None:
            return Ran(passed, arguments[0], STAGE_LIMIT_S, timeout=True)
        return Ran(passed, arguments[0], log=log.read_text()[-2000:])

    def _ask(self, request: dict[str, Any]) -> int | None:
        worker = self._worker
        if worker is None or worker.poll() is not None:
            worker = self._worker = self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(worker.stdout, selectors.EVENT_READ)
            selector.select(request["limit"] + 60)
        answer = json.loads(worker.stdout.readline())
        code = answer["code"]
        return None if code is None else int(code)

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [str(self.tree / "plugins"), str(self.tree)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), _MARK: self._tag}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        program = str(Path(__file__).with_name("worker.py"))
        return subprocess.Popen(
            [sys.executable, "-P", program],
            cwd=self.tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def _end_leftovers(self) -> None:
        """Kill the processes that tests have left running, such as the driver of a failed test.

        Such a process has this runner's mark in its environment or, if its environment was replaced, this folder in its
        command line.
        """
        kept = (os.getpid(), self._worker.pid if self._worker else 0)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid not in kept and (
                    process.environ().get(_MARK) == self._tag
                    or any(str(self._folder) in each for each in process.cmdline())
                ):
                    process.kill()


def _write(file: Path, text: str) -> None:
    """Write a module and delete its compiled files, because Python compares only whole seconds and sizes to detect a
    change.
    """
    file.write_text(text)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.strip()
