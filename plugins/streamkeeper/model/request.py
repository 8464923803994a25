"""The request of a deploy, a rollback or a recovery, and the texts of its form and command line.

A person fills in the fields with a title; ``asked_fields`` reads their texts. Bounds and other parts of a form's JSON
schema are in ``extra``, which msgspec does not check: stored requests stay readable. ``request_limits`` checks new
requests.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from streamkeeper.model.recovery import Recovery
from streamkeeper.model.release import ParamValue

LONGEST_S = 366 * 24 * 3600.0
SWITCHING = "Switching"
DEADLINES = "Deadlines and open operations"

_SECONDS = {"exclusiveMinimum": 0, "maximum": LONGEST_S, "section": DEADLINES}
_SHARE = {"minimum": 0, "maximum": 1, "section": SWITCHING}


class Strategy(Enum):
    """How a deploy treats the checkpoint; ``auto`` follows the verdict, the others request one transition."""

    AUTO = "auto"
    RESUME = "resume"
    HANDOFF = "handoff"
    REBUILD = "rebuild"


class Handover(Enum):
    """``warm``: the candidate starts next to the current driver; ``cold``: only after that has ended."""

    WARM = "warm"
    COLD = "cold"


class DeployRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request. Durations are in seconds. ``release``: a pushed one, or None for the code now under the jobs root.

    ``rollback``: to ``release``, or to the previous one. ``start``: the current release resumes where it stopped,
    because no driver runs. ``recover``: the announced recovery, if any. ``inherit_params``, ``inherit_conf``: whether
    the current release's apply; ``inherited_from``: that release, once they are filled in; ``not_inherited``: its
    params that the code no longer declares.
    """

    job: Annotated[str, Meta(title="Job", description="The job's name", extra={"pattern": "^[a-z][a-z0-9_]{0,62}$"})]
    release: Annotated[
        str | None,
        Meta(
            title="Release",
            description="A pushed release, like `r0007`; without one, the code under the jobs root",
            extra={"pattern": "^(r[0-9]{4,})?$"},
        ),
    ] = None
    params: Annotated[
        dict[str, ParamValue],
        Meta(
            title="Job params",
            description="All params that the job declares, as JSON; left out: those of the current release",
            # Airflow cannot pass a larger number to a task.
            extra={
                "additionalProperties": {
                    "type": ["string", "number", "boolean", "null"],
                    "minimum": -(2**63),
                    "maximum": 2**63 - 1,
                }
            },
        ),
    ] = {}
    conf: Annotated[
        dict[str, str],
        Meta(
            title="Spark conf",
            description='As JSON, for example `{"spark.sql.shuffle.partitions": "4"}`; empty: that of the current'
            " release",
        ),
    ] = {}
    reason: Annotated[
        str,
        Meta(
            title="Reason",
            description="Why; kept in the journal",
            extra={"minLength": 5, "maxLength": 1000},
        ),
    ] = ""
    strategy: Annotated[
        Strategy,
        Meta(
            title="Strategy",
            description="auto follows the verdict; any other path is refused unless it is provably possible",
            extra={
                "values_display": {
                    "auto": "Auto: follow the verdict",
                    "resume": "Resume only",
                    "handoff": "Handoff: a new checkpoint at the exact offsets",
                    "rebuild": "Rebuild: a new checkpoint that reads all input again",
                }
            },
        ),
    ] = Strategy.AUTO
    handover: Annotated[
        Handover,
        Meta(
            title="Handover",
            description="cold: the new driver starts after the old one has ended, where there is no room for two",
            extra={
                "values_display": {
                    "warm": "Warm: start next to the running driver",
                    "cold": "Cold: start after the old driver",
                }
            },
        ),
    ] = Handover.WARM
    dry_run: Annotated[
        bool,
        Meta(
            title="Dry run",
            description="Describe and assess the candidate, then end; the current release keeps running",
        ),
    ] = False
    accept_state_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of state",
            description="A stateful query may start with empty state",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_risk: Annotated[
        bool,
        Meta(
            title="Accept the risk",
            description="An opaque change needs no approval; sinks that are not idempotent may receive duplicates",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_output_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of an output",
            description="A missing output, or an older copy of it, continues after the last committed batch; the rows"
            " that it lacks are not written again",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of input",
            description="The rollback may lose the rows of input that is missing or cannot be checked",
            extra={"section": SWITCHING},
        ),
    ] = False
    revive: Annotated[
        bool,
        Meta(
            title="Revive",
            description="Deploy a forgotten job: it resumes from its old checkpoints",
            extra={"section": SWITCHING},
        ),
    ] = False
    compare: Annotated[
        bool,
        Meta(
            title="Compare",
            description="After a dual run, compare both outputs over the same input; off: the rebuilt output is not"
            " compared",
            extra={"section": SWITCHING},
        ),
    ] = True
    most_missing: Annotated[
        float,
        Meta(
            title="Rows that may be missing",
            description="Share (0 to 1) of the current output's rows that the rebuilt one may lack; above it, a person"
            " decides",
            extra=_SHARE,
        ),
    ] = 0.0
    most_differing: Annotated[
        float,
        Meta(
            title="Rows that may differ",
            description="Share (0 to 1) of the rows in both outputs that may differ, in columns that the change does"
            " not redefine; above it, a person decides",
            extra=_SHARE,
        ),
    ] = 0.0
    expect_different: Annotated[
        tuple[str, ...],
        Meta(
            title="Columns that are meant to differ",
            description="A column that is meant to differ: `column`, or `query.column`",
            extra={"section": SWITCHING},
        ),
    ] = ()
    drain_s: Annotated[
        float,
        Meta(
            title="Drain (s)",
            description="After this, the driver is killed and its open batch replayed",
            extra=_SECONDS,
        ),
    ] = 120.0
    standby_s: Annotated[
        float,
        Meta(
            title="Standby (s)",
            description="After this, the candidate is ended; nothing has changed",
            extra=_SECONDS,
        ),
    ] = 300.0
    first_commit_s: Annotated[
        float,
        Meta(
            title="First commit (s)",
            description="After this, roll back automatically to the previous release, if possible",
            extra=_SECONDS,
        ),
    ] = 180.0
    probation_batches: Annotated[
        int,
        Meta(
            title="Probation (triggers)",
            description="Triggers that every query must complete without an error after its first one",
            extra={"minimum": 0, "section": DEADLINES},
        ),
    ] = 3
    probation_s: Annotated[
        float,
        Meta(
            title="Probation (s)",
            description="After this, roll back automatically to the previous release, if possible",
            extra=_SECONDS,
        ),
    ] = 300.0
    approve_s: Annotated[
        float,
        Meta(title="Approval (s)", description="After this, an unanswered question counts as declined", extra=_SECONDS),
    ] = 24 * 3600.0
    catch_up_s: Annotated[
        float,
        Meta(
            title="Catching up (s)",
            description="After this, the dual run is aborted; the current release keeps running",
            extra=_SECONDS,
        ),
    ] = 6 * 3600.0
    requested_by: str = ""
    rollback: bool = False
    start: bool = False
    recover: Recovery | None = None
    inherit_params: bool = False
    inherit_conf: bool = False
    inherited_from: str = ""
    not_inherited: tuple[str, ...] = ()


ROLLBACK = {
    "release": "The release to roll back to, like `r0003`; without one, the previous release",
    "dry_run": "Report the rollback path and what would be written again, then end",
}
"""The meaning of these fields in a rollback."""
RECOVERY = {"dry_run": "Report what the action would do and what it costs, then end"}
"""The meaning of this field in a recovery."""
