"""``describe``: what Spark makes of a job's queries, asked of a short-lived driver process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import streamkeeper
from streamkeeper.cli.given import Conf, Params, read_conf, read_params
from streamkeeper.errors import InvalidInput, JobUnusable, NotFound
from streamkeeper.model.control import SECRETS
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.operations.secret_resolvers import built_in_resolvers

PATIENCE_S = 300.0


def describe(
    job: Annotated[str, typer.Argument(metavar="FILE:NAME", help="jobs/sales_totals.py:sales_totals")],
    *,
    params: Params = "{}",
    conf: Conf = None,
) -> None:
    """Print the manifest of every query of a job, as JSON; nothing is registered and no query is started."""
    file, separator, name = job.rpartition(":")
    if not separator or not file or not name:
        raise InvalidInput(f"{job!r} is not FILE:NAME", hint="streamkeeper describe jobs/sales_totals.py:sales_totals")
    path = Path(file)
    if not path.is_file():
        raise NotFound(f"job file {file} does not exist")
    root = _root_of(path.absolute())
    entry = path.absolute().relative_to(root).as_posix()
    given, confs = read_params(params), read_conf(conf)
    secrets = resolve(find_references(given, confs), built_in_resolvers(os.environ))
    typer.echo(_ask_driver([str(root), entry, name, json.dumps(given), json.dumps(confs)], secrets))


def _root_of(path: Path) -> Path:
    """The jobs root if the file lies under it, else the file's own folder."""
    root = Path(os.environ.get("STREAMKEEPER_JOBS") or "jobs").absolute()
    return root if path.is_relative_to(root) else path.parent


def _environment(secrets: dict[str, str]) -> dict[str, str]:
    """This process's own, with this very package first, and the secrets as a driver gets them."""
    packages = str(Path(streamkeeper.__file__).parents[1])
    path = os.pathsep.join(each for each in (packages, os.environ.get("PYTHONPATH", "")) if each)
    return {**os.environ, "PYTHONPATH": path, SECRETS: json.dumps(secrets)}


def _ask_driver(asked: list[str], secrets: dict[str, str]) -> str:
    """Run the driver's describing in its own process; raises JobUnusable with its one line."""
    command = [sys.executable, "-m", "streamkeeper.driver.describe", *asked]
    try:
        done = subprocess.run(
            command, env=_environment(secrets), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise JobUnusable(f"{asked[1]} was not described within {PATIENCE_S:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        raise JobUnusable((told or lines or [f"the driver ended with code {done.returncode}"])[-1])
    return done.stdout.rstrip()
