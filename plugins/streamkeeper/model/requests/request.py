"""The request of a deploy, a rollback or a recovery, and its texts in forms and on the command line.

A person fills in the fields that have a title; ``asked_fields`` reads the texts of these fields. ``extra`` contains
bounds and other parts of a form's JSON schema. msgspec does not check ``extra``, so that stored requests stay readable;
``request_limits`` checks new requests.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.requests.recovery import Recovery

LONGEST_S = 366 * 24 * 3600.0
SWITCHING = "Switching"
DEADLINES = "Deadlines and open operations"

_SECONDS = {"exclusiveMinimum": 0, "maximum": LONGEST_S, "section": DEADLINES}
_SHARE = {"minimum": 0, "maximum": 1, "section": SWITCHING}


class Strategy(Enum):
    """How a deploy treats the checkpoints: ``auto`` follows the verdict, each other value requests one transition."""

    AUTO = "auto"
    RESUME = "resume"
    HANDOFF = "handoff"
    REBUILD = "rebuild"


class Handover(Enum):
    """When the candidate starts: ``warm`` beside the current driver, ``cold`` only after that driver has ended."""

    WARM = "warm"
    COLD = "cold"


class DeployRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; durations are in seconds. The fields with a title carry their own descriptions. The others are:

    ``rollback``: whether to make ``release`` current again, or the previous release if ``release`` is None.
    ``start``: whether to start the current release where it stopped, because no driver runs.
    ``recover``: the announced recovery; None for any other operation.
    ``inherit_params``, ``inherit_conf``: whether to use the params, or the confs, of the current release.
    ``inherited_from``: the release that inherited values were copied from; empty before they are copied.
    ``not_inherited``: params of ``inherited_from`` that the code no longer declares.
    """

    job: Annotated[str, Meta(title="Job", description="Name of the job", extra={"pattern": "^[a-z][a-z0-9_]{0,62}$"})]
    release: Annotated[
        str | None,
        Meta(
            title="Release",
            description="Name of a pushed release to deploy, like `r0007`. Without it, the job's code now in the jobs"
            " root (`STREAMKEEPER_JOBS`) is deployed",
            extra={"pattern": "^(r[0-9]{4,})?$"},
        ),
    ] = None
    params: Annotated[
        dict[str, ParamValue],
        Meta(
            title="Job params",
            description="Params of the job, as a JSON object. They replace all params of the current release. If left"
            " out, the params of the current release are kept",
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
            description='Spark confs of the job, as a JSON object like `{"spark.sql.shuffle.partitions": "4"}`. They'
            " replace all confs of the current release. If left out, the confs of the current release are kept",
        ),
    ] = {}
    reason: Annotated[
        str,
        Meta(
            title="Reason",
            description="Your reason for this request, recorded in the job's journal",
            extra={"minLength": 5, "maxLength": 1000},
        ),
    ] = ""
    strategy: Annotated[
        Strategy,
        Meta(
            title="Strategy",
            description="What happens to the checkpoints. `auto` does what the check's verdict requires. `resume`"
            " continues in the current checkpoints. `handoff` starts new checkpoints at the exact offsets of the"
            " current ones. `rebuild` starts new checkpoints, which read all input again. A strategy that is not"
            " provably possible is refused",
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
            description="When the new driver starts. `warm` starts it beside the running driver. `cold` starts it"
            " after the running driver has ended; use `cold` if there is no room for two drivers",
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
            description="Check the new release against the current one, report what the deploy would do, and end. The"
            " current release keeps running",
        ),
    ] = False
    accept_state_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of state",
            description="Allow a stateful query to lose its state. A new checkpoint then starts with empty state at the"
            " offsets of the old one",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_risk: Annotated[
        bool,
        Meta(
            title="Accept the risk",
            description="Approve an opaque change (one whose effect cannot be proven) in advance, so that no person is"
            " asked. Also allow a rollback to write batches again to a sink that is not idempotent, which may then"
            " contain duplicates",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_output_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of an output",
            description="Allow an output that is missing, or that is an older copy. The query continues after its last"
            " committed batch, and the rows that the output lacks are not written again",
            extra={"section": SWITCHING},
        ),
    ] = False
    accept_loss: Annotated[
        bool,
        Meta(
            title="Accept the loss of input",
            description="Allow a rollback that reads input again although some of that input is missing or cannot be"
            " checked. The rows of the missing or unchecked input may be lost",
            extra={"section": SWITCHING},
        ),
    ] = False
    revive: Annotated[
        bool,
        Meta(
            title="Revive",
            description="Allow the deploy of a job that was retired with `streamkeeper forget`. The job resumes from"
            " its old checkpoints",
            extra={"section": SWITCHING},
        ),
    ] = False
    compare: Annotated[
        bool,
        Meta(
            title="Compare",
            description="Before a rebuilt output becomes current, compare it with the current output over the same"
            " input. If off, the rebuilt output is not compared",
            extra={"section": SWITCHING},
        ),
    ] = True
    most_missing: Annotated[
        float,
        Meta(
            title="Rows that may be missing",
            description="Largest share (0 to 1) of the current output's rows that may be missing in the rebuilt"
            " output. If more are missing, a person must approve the rebuilt output",
            extra=_SHARE,
        ),
    ] = 0.0
    most_differing: Annotated[
        float,
        Meta(
            title="Rows that may differ",
            description="The largest share (0 to 1) of differing rows, among the rows of a table that have the same key"
            " in the current and the rebuilt output. Columns that the change redefines do not count. The same limit"
            " applies to rows that only the rebuilt output has, as a share of the current output's rows. Above either"
            " limit, a person must approve the rebuilt output",
            extra=_SHARE,
        ),
    ] = 0.0
    expect_different: Annotated[
        tuple[str, ...],
        Meta(
            title="Columns expected to differ",
            description="Columns, as `column` or `query.column`, whose values are expected to differ between the"
            " current and the rebuilt output. The comparison of the outputs allows them to differ",
            extra={"section": SWITCHING},
        ),
    ] = ()
    drain_s: Annotated[
        float,
        Meta(
            title="Drain time limit (seconds)",
            description="Longest time, in seconds, for the running driver to finish its open batch. After that, the"
            " driver is killed, and the next driver replays the batch",
            extra=_SECONDS,
        ),
    ] = 120.0
    standby_s: Annotated[
        float,
        Meta(
            title="Standby time limit (seconds)",
            description="Longest time, in seconds, for the new driver to start and reach standby. If it takes longer,"
            " the new driver is ended, and nothing has changed",
            extra=_SECONDS,
        ),
    ] = 300.0
    first_commit_s: Annotated[
        float,
        Meta(
            title="First commit time limit (seconds)",
            description="Longest time, in seconds, until every query of the new release has completed its first"
            " trigger. After that, the previous release is made current again automatically, if possible",
            extra=_SECONDS,
        ),
    ] = 180.0
    probation_batches: Annotated[
        int,
        Meta(
            title="Probation (triggers)",
            description="Number of triggers that every query of the new release must complete without an error, after"
            " its first trigger, before the release is promoted",
            extra={"minimum": 0, "section": DEADLINES},
        ),
    ] = 3
    probation_s: Annotated[
        float,
        Meta(
            title="Probation time limit (seconds)",
            description="Longest duration of the probation, in seconds. If the new release has not passed it by then,"
            " the previous release is made current again automatically, if possible",
            extra=_SECONDS,
        ),
    ] = 300.0
    approve_s: Annotated[
        float,
        Meta(
            title="Approval time limit (seconds)",
            description="Longest time, in seconds, that the operation waits for a person's answer to its question."
            " After that, the question counts as declined",
            extra=_SECONDS,
        ),
    ] = 24 * 3600.0
    catch_up_s: Annotated[
        float,
        Meta(
            title="Catch-up time limit (seconds)",
            description="Longest time, in seconds, for a rebuild to read all input that the current release has read."
            " After that, the dual run is aborted, and the current release keeps running",
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
    "release": "Name of the release to roll back to, like `r0003`. Without it, the previous release",
    "dry_run": "Report how the rollback would proceed and which data would be read and written again, and change"
    " nothing",
}
"""Descriptions that differ for a rollback: field -> text."""
RECOVERY = {"dry_run": "Report what the recovery action would read again, write again or lose, and change nothing"}
"""Descriptions that differ for a recovery: field -> text."""
