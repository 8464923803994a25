"""The log of a job's driver, and its location: the machine whose supervisor writes the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from streamkeeper.errors import NotFound
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.redaction import redact
from streamkeeper.model.secret_names import literals_of
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.log_reading import last_lines


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The location of an instance's log."""

    job: str
    """The job."""
    instance: str
    """The instance that wrote the log."""
    path: str
    """The log's path on the machine of the supervisor."""
    elsewhere: str = ""
    """One sentence that names the machine, if the log cannot be read from here; else empty."""


def find_log(installation: Installation, job: str, instance: str = "") -> LogPlace:
    """Return the location of an instance's log; raises NotFound.

    ``instance``: by default the current instance, or the job's newest instance if none is current.
    """
    state = read_job(installation, job)
    known = list(state.instances)
    wanted = instance or state.serving_instance or (known[-1] if known else "")
    if wanted not in state.instances:
        # An unrecorded standby has no known log.
        if instance:
            raise NotFound(
                f"job {job} has no instance {instance}", hint=f"name one of the newest: {', '.join(known[-3:])}"
            )
        raise NotFound(f"job {job} has started no driver yet", hint="deploy the job")
    path = installation.settings.log(job, wanted)
    place = LogPlace(job=job, instance=wanted, path=str(path))
    if path.is_file():
        return place
    if elsewhere := installation.runner.where_log_is(job, wanted):
        return msgspec.structs.replace(place, elsewhere=elsewhere)
    records = Control(installation.store, job, wanted).processes()
    if not records:
        return msgspec.structs.replace(place, elsewhere=f"no machine has recorded that it started {wanted}")
    hosts = ", ".join(sorted({record.host for record in records}))
    elsewhere = f"the log of {wanted} is not here ({path}), but in logs/{job}/{path.name} of the home on {hosts}"
    return msgspec.structs.replace(place, elsewhere=elsewhere)


def tail_log(installation: Installation, job: str, instance: str = "", *, count: int = 20) -> list[str]:
    """Return a line with the log's path, then the log's last lines, redacted.

    If the log cannot be read here, return only one line with the reason, such as the machine that has the log.
    """
    try:
        place = find_log(installation, job, instance)
    except NotFound as error:
        return [error.message]
    if place.elsewhere:
        return [place.elsewhere]
    lines, _ = last_lines(Path(place.path), count)
    shown = shown_lines(installation, job)
    return [f"the last {len(lines)} lines of {place.path}:", *map(shown, lines)]


def shown_lines(installation: Installation, job: str) -> Callable[[str], str]:
    """Return a function that redacts a line of a job's log for display.

    Supervisors mask the secrets in a log when they write it. This function also masks secrets written in params or
    confs, which the supervisors of earlier versions of Streamkeeper left unmasked.
    """
    hidden = literals_of(read_job(installation, job).releases.values())
    return lambda line: visible(redact(line, hidden))
