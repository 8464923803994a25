"""``describe``: print the manifests of a job's queries, made by a short-lived driver process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated

import typer

from streamkeeper.cli.common_options import Conf, Params, read_conf, read_params
from streamkeeper.cli.job_files import read_job_file
from streamkeeper.cli.terminal import echo_json
from streamkeeper.errors import JobUnusable
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.operations.jobs.worker_client import driver_environment
from streamkeeper.system.secret_resolvers import built_in_resolvers

PATIENCE_S = 300.0


def describe(
    job: Annotated[
        str,
        typer.Argument(metavar="FILE:NAME", help="File and name of the job, like jobs/sales_totals.py:sales_totals"),
    ],
    *,
    params: Params = "{}",
    conf: Conf = None,
) -> None:
    """Print the manifest of every query of a job as JSON. No release is registered, and no query is started."""
    job_file = read_job_file(job, read_params(params), read_conf(conf))
    secrets = resolve(find_references(job_file.params, job_file.conf), built_in_resolvers(os.environ))
    asked = [job_file.root, job_file.entry, job_file.name, json.dumps(job_file.params), json.dumps(job_file.conf)]
    echo_json(_ask_driver(asked, secrets))


def _ask_driver(asked: list[str], secrets: dict[str, str]) -> str:
    """Describe the job in a driver process and return the manifests as JSON; raises JobUnusable with the process's last
    error line."""
    command = [sys.executable, "-m", "streamkeeper.driver.describe", *asked]
    try:
        done = subprocess.run(
            command, env=driver_environment(secrets), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise JobUnusable(f"{asked[1]} was not described within {PATIENCE_S:g} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        raise JobUnusable((errors or lines or [f"the driver ended with code {done.returncode}"])[-1])
    return done.stdout.rstrip()
