"""``release push``, ``release list`` and ``release show``."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from streamkeeper.cli.given import Conf, Job, Json, Params, open_site, open_to_look, read_conf, read_params
from streamkeeper.errors import NotFound
from streamkeeper.model.coding import to_json
from streamkeeper.model.names import release_number
from streamkeeper.operations.overview import read_job
from streamkeeper.operations.releases import push_release

app = typer.Typer(no_args_is_help=True, help="Releases: immutable, numbered versions of a job.")


@app.command("push")
def push(job: Job, *, params: Params = "{}", conf: Conf = None) -> None:
    """Register the code that now stands under the jobs root; equal content is the same release again."""
    release = push_release(open_site(), job, params=read_params(params), conf=read_conf(conf))
    typer.echo(release.name)


@app.command("list")
def list_releases(job: Job, *, json: Json = False) -> None:
    """List a job's releases, oldest first; the serving one is marked."""
    state = read_job(open_to_look(), job)
    releases = sorted(state.releases.values(), key=lambda each: each.number)
    if json:
        typer.echo(to_json(releases))
        return
    table = Table("release", "bundle", "params", "conf", "python", "spark", "")
    for each in releases:
        content = each.content
        params = ", ".join(f"{key}={value}" for key, value in sorted(content.params.items()))
        conf = ", ".join(f"{key}={value}" for key, value in sorted(content.conf.items()))
        mark = "serves" if each.name == state.serving_release else ""
        environment = content.environment
        table.add_row(each.name, content.bundle[:12], params, conf, environment.python, environment.spark, mark)
    Console().print(table)


@app.command("show")
def show(job: Job, release: Annotated[str, typer.Argument(metavar="RELEASE", help="r0007")]) -> None:
    """Print everything that a release is made of, and its manifests' hashes once it was described."""
    release_number(release)
    state = read_job(open_to_look(), job)
    if release not in state.releases:
        known = ", ".join(sorted(state.releases)) or "none yet"
        raise NotFound(f"job {job} has no release {release}", hint=f"its releases: {known}")
    found = {
        "release": release,
        "serving": release == state.serving_release,
        "content": state.releases[release].content,
        "manifests": state.described.get(release, {}),
    }
    typer.echo(msgspec.json.format(to_json(found), indent=2))
