"""``release push``, ``release list`` and ``release show``."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.text import Text

from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import JsonResult, reporting
from streamkeeper.cli.common_options import (
    Conf,
    Job,
    Json,
    Params,
    load_installation,
    load_read_only,
    read_conf,
    read_params,
)
from streamkeeper.cli.listing import ListRow, one_line, print_rows
from streamkeeper.cli.terminal import echo, echo_json
from streamkeeper.errors import NotFound
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.release import ParamValue, ReleaseContent
from streamkeeper.model.names import release_number
from streamkeeper.model.redaction import redact_value
from streamkeeper.model.secret_names import is_shown_whole, literals_of, masked_place, names_secret
from streamkeeper.model.secret_references import MASK
from streamkeeper.operations.deploys.admission import check_params
from streamkeeper.operations.deploys.release_registration import push_release
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.release_list import OPEN, SERVES, ListedRelease, list_releases

HEADERS = ("release", "registered", "status", "verdict", "by")
_STYLES = {SERVES: "green", OPEN: "yellow", "failed": "red", "fell-back": "red"}

app = typer.Typer(no_args_is_help=True, help="Releases: immutable, numbered versions of a job.")


@app.command("push")
def push(job: Job, *, params: Params = "{}", conf: Conf = None, json: JsonResult = False) -> None:
    """Register the job's code in the jobs root (STREAMKEEPER_JOBS) as a release, and print its name. If a release with
    equal content exists, none is registered, and the name of that release is printed."""
    with reporting("release push", job=job, as_json=json) as report:
        installation, read, confs = load_installation(begins=True), read_params(params), read_conf(conf)
        check_params(installation, job, read)
        release = push_release(installation, job, params=read, conf=confs, writer=caller())
        report.end(release.name, release=release.name, bundle=release.content.bundle)


@app.command("list")
def list_(job: Job, *, json: Json = False) -> None:
    """List the releases of a job, oldest first, with time, author, reason, verdict and status."""
    installation = load_read_only()
    found = list_releases(installation, read_job(installation, job))
    hidden = literals_of(row.release for row in found)
    listed = [redact_value(row, hidden) for row in found]
    if json:
        echo_json(to_json([_described(row) for row in listed]))
    elif listed:
        print_rows(HEADERS, [_row(row) for row in listed])
    else:
        echo(f"job {job} has no release yet. Run `streamkeeper deploy {job}` or `streamkeeper release push {job}`")


def _described(listed: ListedRelease) -> dict[str, object]:
    """Return the fields of the release, with its status and verdict, secrets masked."""
    found = {name: getattr(listed, name) for name in listed.__struct_fields__ if name not in ("release", "verdict")}
    release = {name: getattr(listed.release, name) for name in listed.release.__struct_fields__}
    release["content"] = _shown_content(listed.release.content)
    return {**release, **found, "verdict": listed.verdict.name if listed.verdict is not None else None}


def _row(listed: ListedRelease) -> ListRow:
    cells = (
        listed.release.name,
        f"{listed.registered_at[:16].replace('T', ' ')}Z" if listed.registered_at else "-",
        "current" if listed.stands == SERVES else listed.stands,
        listed.verdict.name if listed.verdict is not None else "-",
        listed.author or "-",
    )
    content = listed.release.content
    settings = [
        f"{key}={_shown(key, value)}"
        for values in (content.params, content.conf)
        for key, value in sorted(values.items())
    ]
    notes = [Text(one_line(listed.reason))] if listed.reason else []
    notes += [Text(one_line(", ".join(settings)), style="dim")] if settings else []
    return ListRow(cells=tuple(map(one_line, cells)), notes=tuple(notes), styles=((2, _STYLES.get(listed.stands, "")),))


def _shown_content(content: ReleaseContent) -> ReleaseContent:
    """Return the content with secrets masked; the hash of the original content stays."""
    params = {key: _shown(key, value) for key, value in content.params.items()}
    conf = {key: str(_shown(key, value)) for key, value in content.conf.items()}
    return msgspec.structs.replace(content, params=params, conf=conf)


def _shown(key: str, value: ParamValue) -> ParamValue:
    if not isinstance(value, str) or is_shown_whole(key, value):
        return value
    return MASK if names_secret(key) else masked_place(value)


@app.command("show")
def show(
    job: Job, release: Annotated[str, typer.Argument(metavar="RELEASE", help="Name of the release, like r0007")]
) -> None:
    """Print the content of a release, and the hashes of its manifests if a driver has recorded them."""
    release_number(release)
    state = read_job(load_read_only(), job)
    if release not in state.releases:
        known = ", ".join(sorted(state.releases)) or "none yet"
        raise NotFound(f"job {job} has no release {release}", hint=f"its releases: {known}")
    found = {
        "release": release,
        "serving": release == state.serving_release,
        "content": redact_value(_shown_content(state.releases[release].content), literals_of(state.releases.values())),
        "manifests": state.described.get(release, {}),
    }
    echo_json(msgspec.json.format(to_json(found), indent=2))
