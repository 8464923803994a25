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
            description="A pushed release, like `r0007`; else the code now under the jobs root",
            extra={"pattern": "^(r[0-9]{4,})?$"},
        ),
    ] = None
    params: Annotated[
        dict[str, ParamValue],
        Meta(
            title="Job params",
            description="All that the job declares, as JSON; left out: those of the serving release",
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
            description='As JSON, for example `{"spark.sql.shuffle.partitions": "4"}`; empty: that of the serving'
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
            description="auto follows the verdict; another way is refused where it cannot be shown to be possible",
            extra={
                "values_display": {
                    "auto": "Auto: follow the verdict",
                    "resume": "Resume only",
                    "handoff": "Handoff: a new checkpoint, at the exact offsets",
                    "rebuild": "Rebuild: a new checkpoint, everything read again",
                }
            },
        ),
    ] = Strategy.AUTO
    handover: Annotated[
        Handover,
        Meta(
            title="Handover",
            description="cold: where there is no room for two drivers",
            extra={
                "values_display": {"warm": "Warm: start beside the serving driver", "cold": "Cold: no room for two"}
            },
        ),
    ] = Handover.WARM
    dry_run: Annotated[
        bool, Meta(title="Dry run", description="Describe and assess, then stop; what serves goes on")
    ] = False
    accept_state_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of state",
            description="A stateful query may begin empty",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_risk: Annotated[
        bool,
        Meta(
            title="Accept the risk",
            description="An opaque change needs no approval; a sink that is not idempotent may get rows twice",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_output_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of an output",
            description="An output that is missing, or an older copy, goes on after the last committed batch; the rows"
            " that it lacks are not written again",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of input",
            description="The rows of input that is gone, or cannot be looked for, may be lost by going back",
            extra={"section": SWITCHING},
        ),
    ] = False
    revive: Annotated[
        bool,
        Meta(
            title="Revive",
            description="Deploy a job that was forgotten: it goes on from its old checkpoints",
            extra={"section": SWITCHING},
        ),
    ] = False
    compare: Annotated[
        bool,
        Meta(
            title="Compare",
            description="After a dual run, compare both outputs over the same input; without it nobody looks at the"
            " rebuilt one",
            extra={"section": SWITCHING},
        ),
    ] = True
    most_missing: Annotated[
        float,
        Meta(
            title="Rows that may be missing",
            description="Share of the serving output's rows that a rebuild may lack; beyond it a person is asked",
            extra=_SHARE,
        ),
    ] = 0.0
    most_differing: Annotated[
        float,
        Meta(
            title="Rows that may differ",
            description="Share of the rows in both outputs that may differ, in columns that the change does not"
            " redefine; beyond it a person is asked",
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
            description="After this, the candidate is given up and nothing was touched",
            extra=_SECONDS,
        ),
    ] = 300.0
    first_commit_s: Annotated[
        float,
        Meta(
            title="First commit (s)",
            description="After this, what served before serves again, where it can",
            extra=_SECONDS,
        ),
    ] = 180.0
    probation_batches: Annotated[
        int,
        Meta(
            title="Probation (triggers)",
            description="How many more triggers every query has to complete without an error",
            extra={"minimum": 0, "section": DEADLINES},
        ),
    ] = 3
    probation_s: Annotated[
        float,
        Meta(
            title="Probation (s)",
            description="After this, what served before serves again, where it can",
            extra=_SECONDS,
        ),
    ] = 300.0
    approve_s: Annotated[
        float,
        Meta(title="Approval (s)", description="After this, an approval counts as declined", extra=_SECONDS),
    ] = 24 * 3600.0
    catch_up_s: Annotated[
        float,
        Meta(
            title="Catching up (s)",
            description="After this, the dual run is aborted and what serves goes on",
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
    "release": "The release to go back to, like `r0003`; else the one that served before",
    "dry_run": "Say which way back there is and what would be written again, then stop",
}
"""The meaning of these fields in a rollback."""
RECOVERY = {"dry_run": "Say what the action would do and what that costs, then stop"}
"""The meaning of this field in a recovery."""
