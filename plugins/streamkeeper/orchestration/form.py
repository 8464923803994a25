"""The trigger forms of a deploy and of a rollback: their fields, and the request that a filled-in form is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from airflow.sdk import Param

from streamkeeper.errors import InvalidInput
from streamkeeper.model.journal import DeployRequest, Handover, Strategy
from streamkeeper.model.recovery import RecoveryAction

_MOST_EXAMPLES = 50
_SWITCHING = "Switching"
_ADVANCED = "Deadlines and open operations"
_DEFAULTS = DeployRequest(job="")
INHERIT = "inherit"
"""The field by which an empty params or conf means the serving release's."""


def list_job_examples(jobs: Path) -> list[str]:
    """Names of the job files under the jobs root: suggestions only. One look at a directory, at parse time."""
    try:
        names = sorted(entry.name for entry in os.scandir(jobs) if entry.name.endswith(".py"))
    except OSError:
        return []
    return [name.removesuffix(".py") for name in names if not name.startswith("_")][:_MOST_EXAMPLES]


def deploy_form(jobs: Path) -> dict[str, Param]:
    """The fields of ``streaming_deploy``; what their schemas refuse never becomes a run."""
    main = {
        "job": _job(jobs, "A job file under the jobs root, without .py; or the job of a pushed release"),
        "release": _release("Empty: the code now under the jobs root. Or a pushed release, like `r0007`"),
        **_own_values(),
        "reason": _reason(),
        "strategy": _strategy(),
        "handover": _handover(),
        "dry_run": _flag(_DEFAULTS.dry_run, "Dry run", "Describe and assess, then stop"),
    }
    return {**main, **_switching(), **_deadlines(), **_dual_run_deadlines(), "on_open": _on_open("deploy")}


def rollback_form(jobs: Path) -> dict[str, Param]:
    """The fields of ``streaming_rollback``."""
    main = {
        "job": _job(jobs, "The job whose older release is to serve again"),
        "release": _release("The release to go back to, like `r0003`; empty: the one that served before"),
        "reason": _reason(),
        "handover": _handover(),
        "dry_run": _flag(
            _DEFAULTS.dry_run, "Dry run", "Say which way back there is and what would be written again, then stop"
        ),
        "accept_risk": _accept_risk(None),
    }
    return {**main, **_deadlines(), "on_open": _on_open("roll back")}


def stop_form(jobs: Path) -> dict[str, Param]:
    """The fields of ``streaming_stop``."""
    return {
        "job": _job(jobs, "The job that is to serve no more, until somebody starts or deploys it"),
        "reason": _reason(),
        "drain_s": _seconds(_DEFAULTS.drain_s, "Drain", "then the driver is killed; a start replays the open batch"),
    }


def start_form(jobs: Path) -> dict[str, Param]:
    """The fields of ``streaming_start``."""
    return {
        "job": _job(jobs, "The job whose last release is to serve again, from where its checkpoints stand"),
        "reason": _reason(),
    }


def recover_form(jobs: Path) -> dict[str, Param]:
    """The fields of ``streaming_recover``."""
    main = {
        "job": _job(jobs, "The job that does not do what it should"),
        "action": Param(
            RecoveryAction.DIAGNOSE.value,
            type="string",
            enum=[each.value for each in RecoveryAction],
            values_display={
                "diagnose": "Diagnose: say what is wrong and what can be done",
                "restart": "Restart: the serving release, on its checkpoints",
                "restore": "Restore: damaged queries from snapshots",
                "rebuild": "Rebuild: damaged queries read everything again",
            },
            title="Action",
        ),
        "query": Param(
            None,
            type=["null", "string"],
            pattern="^([a-z][a-z0-9_]{0,62})?$",
            title="Query",
            description="Empty: those that are damaged",
        ),
        "snapshot": Param(
            None,
            type=["null", "string"],
            pattern="^(s[0-9]{4,10})?$",
            title="Snapshot",
            description_md="Of that query, like `s0007`; empty: the one that the diagnosis names",
        ),
        "reason": Param("", type="string", title="Reason", description="Recorded with the operation"),
    }
    return {**main, **_deadlines(), **_dual_run_deadlines()}


def read_request(params: Mapping[str, Any], *, requested_by: str, rollback: bool = False) -> DeployRequest:
    """The request of a filled-in form; raises InvalidInput, naming the field."""
    known = {name: params[name] for name in DeployRequest.__struct_fields__ if name in params}
    release = params.get("release") or None
    inherits = bool(params.get(INHERIT)) and release is None and not rollback
    values = {
        **known,
        "release": release,
        "requested_by": requested_by,
        "rollback": rollback,
        "inherit_params": inherits and not params.get("params"),
        "inherit_conf": inherits and not params.get("conf"),
    }
    try:
        return msgspec.convert(values, DeployRequest)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the form is wrong: {error}") from error


def _job(jobs: Path, description: str) -> Param:
    return Param(
        type="string",
        pattern="^[a-z][a-z0-9_]{0,62}$",
        examples=list_job_examples(jobs),
        title="Job",
        description=description,
    )


def _release(description: str) -> Param:
    return Param(None, type=["null", "string"], pattern="^(r[0-9]{4,})?$", title="Release", description_md=description)


def _own_values() -> dict[str, Param]:
    return {
        "params": Param(
            {},
            type="object",
            additionalProperties={"type": ["string", "number", "boolean", "null"]},
            title="Job params",
            description_md="All that the job declares, as JSON; empty: those of the serving release. A secret is"
            " `secret://airflow/CONN_ID/password`",
        ),
        "conf": Param(
            {},
            type="object",
            additionalProperties={"type": "string"},
            title="Spark conf",
            description_md='As JSON, for example `{"spark.sql.shuffle.partitions": "4"}`; empty: that of the serving'
            " release",
        ),
        INHERIT: _flag(
            True,
            "Keep what serves",
            "Params or conf that are left empty are the serving release's; off: there are none",
        ),
    }


def _reason() -> Param:
    return Param(type="string", minLength=5, title="Reason", description="Recorded with the operation")


def _strategy() -> Param:
    return Param(
        _DEFAULTS.strategy.value,
        type="string",
        enum=[each.value for each in Strategy],
        values_display={
            "auto": "Auto: follow the verdict",
            "resume": "Resume only",
            "handoff": "Handoff: a new checkpoint, at the exact offsets",
            "rebuild": "Rebuild: a new checkpoint, everything read again",
        },
        title="Strategy",
        description="Another way than the verdict's is refused where it cannot be shown to be possible",
    )


def _handover() -> Param:
    return Param(
        _DEFAULTS.handover.value,
        type="string",
        enum=[each.value for each in Handover],
        values_display={"warm": "Warm: start beside the serving driver", "cold": "Cold: no room for two"},
        title="Handover",
    )


def _accept_risk(section: str | None) -> Param:
    return _flag(
        _DEFAULTS.accept_risk,
        "Accept the risk",
        "An opaque change needs no approval, and an output that does not know its rows again may get them twice",
        section,
    )


def _switching() -> dict[str, Param]:
    return {
        "accept_state_loss": _flag(
            _DEFAULTS.accept_state_loss, "Accept the loss of state", "A stateful query may begin empty", _SWITCHING
        ),
        "accept_risk": _accept_risk(_SWITCHING),
        "revive": _flag(
            _DEFAULTS.revive,
            "Revive",
            "Deploy a job that was forgotten: it goes on from its old checkpoints",
            _SWITCHING,
        ),
        "compare": _flag(
            _DEFAULTS.compare,
            "Compare",
            "After a dual run, both outputs over the same input; without it nobody looks at the rebuilt output",
            _SWITCHING,
        ),
        "most_missing": _share(
            _DEFAULTS.most_missing,
            "Rows that may be missing",
            "As a share of the serving output's rows; beyond it a person is asked",
        ),
        "most_differing": _share(
            _DEFAULTS.most_differing,
            "Rows that may differ",
            "As a share of the rows that both outputs have, in columns that the change does not redefine; beyond it a"
            " person is asked",
        ),
        "expect_different": Param(
            list(_DEFAULTS.expect_different),
            type="array",
            items={"type": "string"},
            title="Columns that are meant to differ",
            description_md="A line each: `column`, or `query.column`",
            section=_SWITCHING,
        ),
    }


def _deadlines() -> dict[str, Param]:
    return {
        "drain_s": _seconds(_DEFAULTS.drain_s, "Drain", "then the old driver is killed and the batch replayed"),
        "standby_s": _seconds(_DEFAULTS.standby_s, "Standby", "then the operation ends and nothing was touched"),
        "first_commit_s": _seconds(
            _DEFAULTS.first_commit_s, "First commit", "then what served before goes again, where it can"
        ),
        "probation_batches": Param(
            _DEFAULTS.probation_batches,
            type="integer",
            minimum=0,
            title="Probation (triggers)",
            description="How many more triggers every query has to complete without an error",
            section=_ADVANCED,
        ),
        "probation_s": _seconds(_DEFAULTS.probation_s, "Probation", "then what served before goes again, where it can"),
    }


def _dual_run_deadlines() -> dict[str, Param]:
    return {
        "approve_s": _seconds(_DEFAULTS.approve_s, "Approval", "then it counts as declined"),
        "catch_up_s": _seconds(
            _DEFAULTS.catch_up_s, "Catching up", "then the dual run is aborted, and what serves goes on"
        ),
    }


def _on_open(verb: str) -> Param:
    return Param(
        "refuse",
        type="string",
        enum=["refuse", "continue", "abort"],
        values_display={
            "refuse": "Refuse, and name it",
            "continue": "Continue that operation",
            "abort": f"Abort that operation, then {verb}",
        },
        title="If another operation of the job is open",
        section=_ADVANCED,
    )


def _flag(default: bool, title: str, description: str, section: str | None = None) -> Param:
    return Param(default, type="boolean", title=title, description=description, **_in(section))


def _share(default: float, title: str, description: str) -> Param:
    return Param(default, type="number", minimum=0, maximum=1, title=title, description=description, **_in(_SWITCHING))


def _seconds(default: float, title: str, otherwise: str) -> Param:
    return Param(
        default, type="number", exclusiveMinimum=0, title=f"{title} (s)", description=otherwise, section=_ADVANCED
    )


def _in(section: str | None) -> dict[str, str]:
    return {"section": section} if section else {}
