"""The installation that receives bad inputs, how each door answers, and what exists before and after."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

import psutil

from harness.airflow_process import Airflow
from harness.forms import CONF, EVENT_COPY, deploy_conf
from harness.places import Places
from harness.producer import EVENTS, prepare, write_whole
from harness.rest import AirflowApi
from harness.s3_server import FIRST_BUCKET, S3Server, s3_server
from harness.system import System
from streamkeeper.cli.main import app

_LONGEST_COMMAND_S = 300.0
TRACEBACK = "Traceback (most recent call last)"
_ENDED = "Task exited"
_OF_THE_DRIVER = ("status.json", "history.json")
"""Files that the serving driver replaces by itself in its folder of ``control/``."""


class Answer(NamedTuple):
    """What a person sees. ``ended``: the exit code, the HTTP status or the run's state; ``lines``: the number of lines
    on the terminal, or of error lines in Airflow's answer or in a task's log.
    """

    ended: str
    told: str
    lines: int
    traceback: bool


class Stage:
    """An installation with a job that serves its second release and has a snapshot, and two jobs that were only pushed,
    one of which is spoilt.
    """

    def __init__(self, root: Path, server: S3Server) -> None:
        self.places = Places(root)
        self.server = server
        self.temporary = root / "tmp"
        self.system = System(self.places, lambda line: None)
        self.api = AirflowApi("http://127.0.0.1:1")
        for each in ("BACKUP", "DRILL", "PRUNE", "WATCH"):
            self.system.environment[f"STREAMKEEPER_{each}_SCHEDULE"] = "never"
        self.system.environment.update({**server.environment, "TMPDIR": str(self.temporary), "COLUMNS": "80"})

    @property
    def params(self) -> dict[str, Any]:
        """The params of the serving job."""
        return dict(deploy_conf(self.places, EVENT_COPY, files_per_trigger=100, reason="first release")["params"])

    @property
    def bucket(self) -> str:
        """The name of an existing bucket."""
        return FIRST_BUCKET

    @property
    def release(self) -> str:
        """The serving release."""
        return self.system.installation.journal(EVENT_COPY, "bench").state().serving_release

    @property
    def operation(self) -> str:
        """The operation that deployed the serving release."""
        return next(reversed(self.system.installation.journal(EVENT_COPY, "bench").state().operations))

    def prepare(self) -> None:
        """Deploy, take a snapshot and push, with the commands that a person would use."""
        self.places.prepare()
        self.temporary.mkdir()
        prepare(self.places.input)
        write_whole(self.places.input / EVENTS, "000000.csv", [(f"e{n}", "c1", "sale", n) for n in range(20)])
        given = [
            "--params",
            json.dumps(self.params),
            *(word for key in CONF for word in ("--conf", f"{key}={CONF[key]}")),
        ]
        self._must("deploy", EVENT_COPY, *given, "--reason", "first release")
        second = ["--params", json.dumps({**self.params, "files_per_trigger": 50})]
        self._must("deploy", EVENT_COPY, *second, "--reason", "second release")
        self._must("snapshot", "take", f"{EVENT_COPY}/copy")
        for name in ("pushed", "spoilt"):
            source = (self.places.jobs / f"{EVENT_COPY}.py").read_text()
            (self.places.jobs / f"{name}.py").write_text(source.replace(f'name="{EVENT_COPY}"', f'name="{name}"'))
            self._must("release", "push", name, *given)

    def start_airflow(self) -> Airflow:
        """Start Airflow and return once it accepts runs."""
        airflow = self.system.start_airflow()
        self.system.wait_for_airflow(airflow)
        self.api = airflow.api
        return airflow

    def _must(self, *words: str) -> None:
        done = self._run(words, {})
        if done.returncode:
            raise RuntimeError(f"streamkeeper {' '.join(words[:2])}: {done.stderr}{done.stdout}")

    def _run(self, words: Sequence[str], extra: Mapping[str, str | None]) -> subprocess.CompletedProcess[str]:
        environment = {**self.system.environment, **{key: text for key, text in extra.items() if text is not None}}
        environment = {key: text for key, text in environment.items() if key not in extra or extra[key] is not None}
        with TemporaryFile() as output, TemporaryFile() as errors:
            child = os.fork()
            if child == 0:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                os.chdir(self.places.root)
                _type(words, environment)
            returncode = os.waitstatus_to_exitcode(_wait(child))
            told = []
            for each in (output, errors):
                each.seek(0)
                told.append(each.read().decode(errors="replace"))
        return subprocess.CompletedProcess(list(words), returncode, stdout=told[0], stderr=told[1])

    def by_command(self, words: Sequence[str], extra: Mapping[str, str | None]) -> Answer:
        """Run a command as typed in a shell; ``extra``: variables, None for one that is not set."""
        done = self._run(words, extra)
        lines = [line for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
        told = next((line for line in lines if "error" in line), lines[-1] if lines else "")
        trace = TRACEBACK in done.stdout + done.stderr
        return Answer(f"exit {done.returncode}", told.strip(), len(lines), trace)

    def trigger(self, dag: str, body: bytes) -> Answer | str:
        """Return the answer of ``POST …/dagRuns``, or the run's id if it started one."""
        status, answer = self._post(dag, body)
        if status != 200:
            detail = answer.get("detail", answer) if isinstance(answer, dict) else answer
            text = detail if isinstance(detail, str) else json.dumps(detail)
            lines = [line for line in text.splitlines() if line.strip()] or [""]
            return Answer(f"HTTP {status}", lines[0], len(lines), TRACEBACK in text)
        return str(answer["dag_run_id"])

    def by_run(self, dag: str, run: str) -> Answer:
        """Wait until the run is over and return what its tasks logged."""
        state = self.api.wait_for_run(dag, run, timeout_s=300)
        told = [line for each in self.api.tasks(dag, run).values() for line in self._errors(dag, run, each)]
        texts = list(dict.fromkeys(text for text, _trace in told))
        return Answer(f"run {state}", texts[0] if texts else "", len(texts), any(trace for _text, trace in told))

    def _errors(self, dag: str, run: str, task: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
        """Yield each error in a failed task's log and whether it is shown with stack frames, without Airflow's own
        *Task exited*.
        """
        if task["state"] != "failed":
            return
        path = f"{quote(run, safe='')}/taskInstances/{task['task_id']}/logs/{task['try_number']}"
        url = f"{self.api.url}/api/v2/dags/{dag}/dagRuns/{path}?full_content=true&map_index={task['map_index']}"
        with urllib.request.urlopen(urllib.request.Request(url, headers=self._headers), timeout=60) as got:
            content = json.loads(got.read())["content"]
        for event in content:
            if isinstance(event, dict) and event.get("level") in ("error", "critical") and event["event"] != _ENDED:
                yield str(event["event"]).partition(": ")[2] or str(event["event"]), bool(event.get("error_detail"))

    @property
    def _headers(self) -> dict[str, str]:
        with urllib.request.urlopen(f"{self.api.url}/auth/token", timeout=60) as got:
            token = json.loads(got.read())["access_token"]
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}

    def _post(self, dag: str, body: bytes) -> tuple[int, Any]:
        url = f"{self.api.url}/api/v2/dags/{quote(dag, safe='')}/dagRuns"
        try:
            request = urllib.request.Request(url, data=body, headers=self._headers, method="POST")
            with urllib.request.urlopen(request, timeout=120) as got:
                return got.status, json.loads(got.read())
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, text

    def look(self) -> dict[str, tuple[int, int, int]]:
        """Return mode, size and modification time of every file and folder, and every process, except for Airflow's
        own.
        """
        found = {f"process {each.pid}": (0, 0, 0) for each in self._processes()}
        for folder, folders, files in os.walk(self.places.root):
            if Path(folder) == self.places.root:
                folders[:] = [name for name in folders if name != "airflow"]
                files = [name for name in files if not name.endswith((".log", ".json"))]
            if Path(folder).is_relative_to(self.places.home / "scratch") or Path(folder).name == "__pycache__":
                folders.clear()
                continue
            for name in files:
                path = Path(folder, name)
                if (name.startswith((".", *_OF_THE_DRIVER)) and "/control/" in folder) or "/home/logs/" in folder:
                    continue
                seen = path.lstat()
                found[str(path.relative_to(self.places.root))] = (seen.st_mode, seen.st_size, seen.st_mtime_ns)
            for name in folders:
                path = Path(folder, name)
                found[f"{path.relative_to(self.places.root)}/"] = (path.lstat().st_mode, 0, 0)
        return found

    def _processes(self) -> Iterator[psutil.Process]:
        """Yield drivers and any other process that a command or a task has started and left running."""
        for process in psutil.process_iter():
            try:
                environment, words = process.environ(), " ".join(process.cmdline())
            except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            if environment.get("STREAMKEEPER_HOME") == str(self.places.home) and "streamkeeper." in words:
                yield process


def _type(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Run the command in this forked child, which need not import it anew: that saves a second for each of two hundred
    inputs.
    """
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        code = int(app(list(words), prog_name="streamkeeper") or 0)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for each in (sys.stdout, sys.stderr):
            each.flush()
        os._exit(code)


def _wait(child: int) -> int:
    """Return the child's wait status; kill a command that exceeds its time limit."""
    deadline = time.monotonic() + _LONGEST_COMMAND_S
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def find_left(before: Mapping[str, tuple[int, int, int]], after: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """Return what is new, missing or changed."""
    new = [f"+ {name}" for name in after if name not in before]
    gone = [f"- {name}" for name in before if name not in after]
    changed = [f"~ {name}" for name, seen in after.items() if before.get(name, seen) != seen]
    return sorted(new + gone + changed)


@contextmanager
def fresh_stage(root: Path) -> Iterator[Stage]:
    """Open a new installation with its S3 server; all of it is stopped at the end."""
    with s3_server(root.with_name(f"{root.name}-s3"), volume_mb=64, volumes=40) as server:
        stage = Stage(root, server)
        stage.system.stop()
        shutil.rmtree(root, ignore_errors=True)
        try:
            stage.prepare()
            yield stage
        finally:
            stage.system.stop()
