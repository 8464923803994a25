"""The request of a deploy, a rollback or a recovery, and its texts in forms and on the command line.

A person fills in the fields with an ``Ask``. Options, forms, the arguments of task groups and the limits of new
requests are made from it. msgspec does not check it, so that stored requests stay readable.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.requests.asked_fields import COUNT, SECONDS, SHARE, Ask, Verb
from streamkeeper.model.requests.diagnosis import Recovery

SWITCHING = "Switching"
DEADLINES = "Deadlines and open operations"

_DEPLOYS = (Verb.DEPLOY, Verb.ROLLBACK, Verb.RECOVER)


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


class Deployment(msgspec.Struct, frozen=True):
    """Deploy a pushed release, or the job's code."""


class Rollback(msgspec.Struct, frozen=True):
    """Make ``release`` current again, or the previous release if ``release`` is None."""


class StartCurrent(msgspec.Struct, frozen=True):
    """Start the current release where it stopped, because no driver runs."""


RequestKind = Deployment | Rollback | StartCurrent | Recovery
"""What is requested. A recovery runs the current release again, with announced transitions."""


class DeployRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; durations are in seconds. The fields with an ``Ask`` carry their own descriptions. The others are:

    ``stored_rollback``, ``stored_start``, ``stored_recovery``: the kind of the request, as records have always stored
    it; read ``kind``, and make a request of another kind with ``of_kind``.
    ``inherit_params``, ``inherit_conf``: whether to use the params, or the confs, of the current release.
    ``inherited_from``: the release that inherited values were copied from; empty before they are copied.
    ``not_inherited``: params of ``inherited_from`` that the code no longer declares.
    """

    job: Annotated[
        str,
        Ask(
            title="Job",
            help="Name of the job",
            help_for={
                Verb.DEPLOY: "Name of the job to deploy: the name of its file in the jobs root without `.py`, or the"
                " job of a pushed release",
                Verb.ROLLBACK: "Name of the job to roll back to an older release",
                Verb.STOP: "Name of the job to stop. The job stays stopped until a person starts, deploys or rolls it"
                " back",
                Verb.START: "Name of the job to start again. Its last release resumes from its checkpoints",
                Verb.RECOVER: "Name of the job to diagnose or recover",
            },
            verbs=tuple(Verb),
            metavar="JOB",
            extra={"pattern": "^[a-z][a-z0-9_]{0,62}$"},
        ),
    ]
    release: Annotated[
        str | None,
        Ask(
            title="Release",
            help="Name of a pushed release to deploy, like `r0007`. Without it, the job's code now in the jobs"
            " root (`STREAMKEEPER_JOBS`) is deployed",
            help_for={
                Verb.ROLLBACK: "Name of the release to roll back to, like `r0003`. Without it, the previous release"
            },
            verbs=(Verb.DEPLOY, Verb.ROLLBACK),
            metavar="r0007",
            extra={"pattern": "^(r[0-9]{4,})?$"},
        ),
    ] = None
    params: Annotated[
        dict[str, ParamValue],
        Ask(
            title="Job params",
            help="Params of the job, as a JSON object. They replace all params of the current release. If left"
            " out, the params of the current release are kept",
            metavar="JSON",
            form_note="Refer to a secret as `secret://airflow/CONN_ID/password`",
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
        Ask(
            title="Spark conf",
            help="Spark confs of the job. They replace all confs of the current release. If left out, the confs of the"
            " current release are kept",
            metavar="KEY=VALUE",
            form_note='Write them as a JSON object like `{"spark.sql.shuffle.partitions": "4"}`',
        ),
    ] = {}
    reason: Annotated[
        str,
        Ask(
            title="Reason",
            help="Your reason for this request, recorded in the job's journal",
            verbs=tuple(Verb),
            required=(Verb.ROLLBACK, Verb.STOP),
            extra={"minLength": 5, "maxLength": 1000},
        ),
    ] = ""
    strategy: Annotated[
        Strategy,
        Ask(
            title="Strategy",
            help="What happens to the checkpoints. `auto` does what the check's verdict requires. `resume`"
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
        Ask(
            title="Handover",
            help="When the new driver starts. `warm` starts it beside the running driver. `cold` starts it"
            " after the running driver has ended; use `cold` if there is no room for two drivers",
            verbs=(Verb.DEPLOY, Verb.ROLLBACK),
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
        Ask(
            title="Dry run",
            help="Check the new release against the current one, report what the deploy would do, and end. The"
            " current release keeps running",
            help_for={
                Verb.ROLLBACK: "Report how the rollback would proceed and which data would be read and written again,"
                " and change nothing",
                Verb.RECOVER: "Report what the recovery action would read again, write again or lose, and change"
                " nothing",
            },
            verbs=_DEPLOYS,
        ),
    ] = False
    accept_state_loss: Annotated[
        bool,
        Ask(
            title="Accept the loss of state",
            help="Allow a stateful query to lose its state. A new checkpoint then starts with empty state at the"
            " offsets of the old one",
            section=SWITCHING,
        ),
    ] = False
    accept_risk: Annotated[
        bool,
        Ask(
            title="Accept the risk",
            help="Approve an opaque change (one whose effect cannot be proven) in advance, so that no person is"
            " asked. Also allow a rollback to write batches again to a sink that is not idempotent, which may then"
            " contain duplicates",
            verbs=(Verb.DEPLOY, Verb.ROLLBACK),
            section=SWITCHING,
        ),
    ] = False
    accept_output_loss: Annotated[
        bool,
        Ask(
            title="Accept the loss of an output",
            help="Allow an output that is missing, or that is an older copy. The query continues after its last"
            " committed batch, and the rows that the output lacks are not written again",
            section=SWITCHING,
        ),
    ] = False
    accept_loss: Annotated[
        bool,
        Ask(
            title="Accept the loss of input",
            help="Allow a rollback that reads input again although some of that input is missing or cannot be"
            " checked. The rows of the missing or unchecked input may be lost",
            verbs=(Verb.ROLLBACK,),
            section=SWITCHING,
        ),
    ] = False
    revive: Annotated[
        bool,
        Ask(
            title="Revive",
            help="Allow the deploy of a job that was retired with `streamkeeper forget`. The job resumes from"
            " its old checkpoints",
            section=SWITCHING,
        ),
    ] = False
    compare: Annotated[
        bool,
        Ask(
            title="Compare",
            help="Before a rebuilt output becomes current, compare it with the current output over the same"
            " input. If off, the rebuilt output is not compared",
            section=SWITCHING,
        ),
    ] = True
    most_missing: Annotated[
        float,
        Ask(
            title="Rows that may be missing",
            help="Largest share (0 to 1) of the current output's rows that may be missing in the rebuilt"
            " output. If more are missing, a person must approve the rebuilt output",
            unit=SHARE,
            section=SWITCHING,
        ),
    ] = 0.0
    most_differing: Annotated[
        float,
        Ask(
            title="Rows that may differ",
            help="The largest share (0 to 1) of differing rows, among the rows of a table that have the same key"
            " in the current and the rebuilt output. Columns that the change redefines do not count. The same limit"
            " applies to rows that only the rebuilt output has, as a share of the current output's rows. Above either"
            " limit, a person must approve the rebuilt output",
            unit=SHARE,
            section=SWITCHING,
        ),
    ] = 0.0
    expect_different: Annotated[
        tuple[str, ...],
        Ask(
            title="Columns expected to differ",
            help="Columns, as `column` or `query.column`, whose values are expected to differ between the"
            " current and the rebuilt output. The comparison of the outputs allows them to differ",
            metavar="COLUMN",
            form_note="One per line",
            section=SWITCHING,
        ),
    ] = ()
    drain_s: Annotated[
        float,
        Ask(
            title="Drain time limit (seconds)",
            help="Longest time, in seconds, for the running driver to finish its open batch. After that, the"
            " driver is killed, and the next driver replays the batch",
            unit=SECONDS,
            verbs=(*_DEPLOYS, Verb.STOP),
            section=DEADLINES,
        ),
    ] = 120.0
    standby_s: Annotated[
        float,
        Ask(
            title="Standby time limit (seconds)",
            help="Longest time, in seconds, for the new driver to start and reach standby. If it takes longer,"
            " the new driver is ended, and nothing has changed",
            unit=SECONDS,
            verbs=_DEPLOYS,
            section=DEADLINES,
        ),
    ] = 300.0
    first_commit_s: Annotated[
        float,
        Ask(
            title="First commit time limit (seconds)",
            help="Longest time, in seconds, until every query of the new release has completed its first"
            " trigger. After that, the previous release is made current again automatically, if possible",
            unit=SECONDS,
            verbs=_DEPLOYS,
            section=DEADLINES,
        ),
    ] = 180.0
    probation_batches: Annotated[
        int,
        Ask(
            title="Probation (triggers)",
            help="Number of triggers that every query of the new release must complete after its first trigger,"
            " before the release is promoted. A query that fails twice in a row ends the probation",
            unit=COUNT,
            verbs=_DEPLOYS,
            section=DEADLINES,
        ),
    ] = 3
    probation_s: Annotated[
        float,
        Ask(
            title="Probation time limit (seconds)",
            help="Longest duration of the probation, in seconds. If the new release has not passed it by then,"
            " the previous release is made current again automatically, if possible",
            unit=SECONDS,
            verbs=_DEPLOYS,
            section=DEADLINES,
        ),
    ] = 300.0
    approve_s: Annotated[
        float,
        Ask(
            title="Approval time limit (seconds)",
            help="Longest time, in seconds, that the operation waits for a person's answer to its question."
            " After that, the question counts as declined",
            unit=SECONDS,
            verbs=(Verb.DEPLOY, Verb.RECOVER),
            section=DEADLINES,
        ),
    ] = 24 * 3600.0
    catch_up_s: Annotated[
        float,
        Ask(
            title="Catch-up time limit (seconds)",
            help="Longest time, in seconds, for a rebuild to read all input that the current release has read."
            " After that, the dual run is aborted, and the current release keeps running",
            unit=SECONDS,
            verbs=(Verb.DEPLOY, Verb.RECOVER),
            section=DEADLINES,
        ),
    ] = 6 * 3600.0
    requested_by: str = ""
    stored_rollback: bool = msgspec.field(default=False, name="rollback")
    stored_start: bool = msgspec.field(default=False, name="start")
    stored_recovery: Recovery | None = msgspec.field(default=None, name="recover")
    inherit_params: bool = False
    inherit_conf: bool = False
    inherited_from: str = ""
    not_inherited: tuple[str, ...] = ()

    @property
    def kind(self) -> RequestKind:
        """What is requested."""
        if self.stored_recovery is not None:
            return self.stored_recovery
        if self.stored_start:
            return StartCurrent()
        return Rollback() if self.stored_rollback else Deployment()

    @property
    def recovery(self) -> Recovery | None:
        """The announced recovery; None for any other kind."""
        return self.stored_recovery

    def of_kind(self, kind: RequestKind) -> DeployRequest:
        """Return the request with another kind."""
        return msgspec.structs.replace(
            self,
            stored_rollback=isinstance(kind, Rollback),
            stored_start=isinstance(kind, StartCurrent),
            stored_recovery=kind if isinstance(kind, Recovery) else None,
        )
