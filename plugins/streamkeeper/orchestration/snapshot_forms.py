"""The trigger forms of the backup, the drill and the prune, and the requests made from these forms.

Every field may stay empty, because a scheduled run fills in none. An empty field selects everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import Param

from streamkeeper.errors import InvalidInput
from streamkeeper.model.records.snapshot import snapshot_number
from streamkeeper.model.requests.trigger_forms import unclamped
from streamkeeper.orchestration.form import list_job_examples

if TYPE_CHECKING:
    from streamkeeper.snapshots.retention import Policy

_NAME = "^([a-z][a-z0-9_]{0,62})?$"
_SNAPSHOT = "^(s[0-9]{4,10})?$"
_RULES = "^( *(last|hourly|daily|weekly|monthly)=[0-9]+ *(,|$))*$"


class QueryChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The queries that a backup or a drill is for, and the snapshot to drill.

    An empty ``job`` or ``query`` selects all jobs or all queries. An empty ``snapshot`` selects the newest.
    """

    job: str = ""
    query: str = ""
    snapshot: str = ""


class PruneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a prune."""

    job: str = ""
    """Only this job; empty for all."""
    dry_run: bool = False
    """Whether to report only, and to remove nothing."""
    keep: str = ""
    """The retention rules; empty for those of the installation."""
    grace_s: float | None = None
    """Seconds that an unreferenced pack stays; None for the default of one day."""

    @property
    def policy(self) -> Policy | None:
        """The requested retention policy, None for the installation's policy; raises InvalidInput, naming the field."""
        from streamkeeper.operations.backups.pruning import read_policy

        try:
            return read_policy(self.keep) if self.keep.strip() else None
        except InvalidInput as error:
            raise InvalidInput(f"keep={self.keep}: {error.message}", hint=error.hint) from error

    @property
    def grace_period_s(self) -> float:
        """Seconds that an unreferenced pack stays; raises InvalidInput, naming the field, if they are too few."""
        from streamkeeper.snapshots.sweep import GRACE_S, check_grace

        wanted = GRACE_S if self.grace_s is None else self.grace_s
        try:
            return check_grace(wanted)
        except InvalidInput as error:
            raise InvalidInput(f"grace_s={wanted:g} is too short", hint=error.hint) from error


def backup_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_backup``; ``jobs``: the jobs root, for suggested job names."""
    return {"job": _job(jobs, "back up")}


def drill_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_drill``; ``jobs``: the jobs root, for suggested job names."""
    return {
        "job": _job(jobs, "drill"),
        "query": _text(_NAME, "Query", "The only query of the job to drill. If empty, every query"),
        "snapshot": _text(
            _SNAPSHOT,
            "Snapshot",
            "Snapshot of the named query to drill, like `s0007`. If empty, the newest snapshot, unless a drill has"
            " already verified it",
        ),
    }


def prune_form(jobs: Path) -> dict[str, Param]:
    """Return the form fields of the DAG ``streaming_prune``; ``jobs``: the jobs root, for suggested job names."""
    return {
        "job": _job(jobs, "prune"),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Report what would be removed and why, and remove nothing",
        ),
        "keep": _text(
            _RULES,
            "Keep",
            "Retention rules that decide which snapshots are kept, like"
            " `last=3,hourly=24,daily=7,weekly=4,monthly=6`. If empty, the setting `STREAMKEEPER_KEEP`",
        ),
        "grace_s": Param(
            None,
            type=["null", "number"],
            **unclamped({"minimum": 0}),
            title="Grace period (seconds)",
            description_md="Seconds for which snapshot data stays in the store after the last snapshot that uses the"
            " data was removed. If empty, one day. Use `0` only while no snapshot is being taken",
        ),
    }


def read_choice_of_queries(params: Mapping[str, Any]) -> QueryChoice:
    """Read the selection from a filled-in form of a backup or a drill; raises InvalidInput, naming the field."""
    choice = _read(params, QueryChoice)
    if choice.query and not choice.job:
        raise InvalidInput(f"query={choice.query} without its job", hint="fill in the field job, too")
    if choice.snapshot and not choice.query:
        raise InvalidInput(
            f"snapshot={choice.snapshot} without its query", hint="fill in the fields job and query, too"
        )
    if choice.snapshot:
        snapshot_number(choice.snapshot)
    return choice


def read_prune(params: Mapping[str, Any]) -> PruneRequest:
    """Read the request from a filled-in form of a prune; raises InvalidInput, naming the field."""
    return _read(params, PruneRequest)


def _read(params: Mapping[str, Any], kind: type[msgspec.Struct]) -> Any:
    values = {name: params[name] for name in kind.__struct_fields__ if params.get(name) is not None}
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the form is wrong: {error}") from error


def _job(jobs: Path, verb: str) -> Param:
    examples = list_job_examples(jobs)
    description = f"The only job to {verb}. If empty, every deployed job"
    return _text(_NAME, "Job", description, **({"examples": examples} if examples else {}))


def _text(pattern: str, title: str, description: str, **more: Any) -> Param:
    return Param(None, type=["null", "string"], pattern=pattern, title=title, description_md=description, **more)
