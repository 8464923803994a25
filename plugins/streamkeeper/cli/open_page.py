"""``open``: print the address of a job's page in Airflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as UnreadableFile
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from streamkeeper.cli.common_options import load_read_only
from streamkeeper.cli.terminal import echo
from streamkeeper.errors import InvalidInput
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.pages.page_address import page_address, page_path

VARIABLE = "AIRFLOW__API__BASE_URL"
_HINT = f"give `--airflow https://…`, set {VARIABLE}, or set base_url under [api] in airflow.cfg"


def open_(
    job: Annotated[
        str,
        typer.Argument(
            metavar="[JOB]", help="Name of the job. Without it, print the address of the page with all jobs"
        ),
    ] = "",
    *,
    airflow: Annotated[
        str,
        typer.Option(
            "--airflow",
            metavar="ADDRESS",
            help="Base URL of Airflow. Without it, AIRFLOW__API__BASE_URL or base_url in airflow.cfg",
        ),
    ] = "",
) -> None:
    """Print the address of a job's page in Airflow."""
    base = read_base_url(os.environ, airflow)
    if job:
        read_job(load_read_only(), job)
    echo(page_address(base, page_path(job)))


def read_base_url(environ: Mapping[str, str], option: str = "") -> str:
    """Return Airflow's address, from the option, the variable or the configuration file; raises InvalidInput."""
    found = option or environ.get(VARIABLE, "") or _in_file(environ)
    if not found:
        raise InvalidInput("Airflow's address is not configured here", hint=_HINT)
    if urlsplit(found).scheme not in ("http", "https") or not urlsplit(found).netloc:
        raise InvalidInput(f"{found!r} is not an address of Airflow", hint=_HINT)
    return found


def _in_file(environ: Mapping[str, str]) -> str:
    """Return the address in airflow.cfg, or "". Reads the file without Airflow, which may not be installed here."""
    file = Path(environ.get("AIRFLOW_HOME") or "~/airflow", "airflow.cfg").expanduser()
    file = Path(environ.get("AIRFLOW_CONFIG") or file)
    found = ConfigParser(interpolation=None)
    try:
        found.read(file)
    except (UnreadableFile, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {' '.join(str(error).split())}", hint=_HINT) from None
    return found.get("api", "base_url", fallback="")
