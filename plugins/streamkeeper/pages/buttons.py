"""The buttons of a job: one for each DAG that the viewer may run and that applies to the job's state.

Templates of a job's pages include ``buttons.html``, which renders the row of buttons from the value ``buttons``. Each
button loads its dialog. A page that lists snapshots links each snapshot to ``restore_path`` if ``may_restore`` is set.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urlencode

import msgspec

from streamkeeper.lifecycle.approval_steps import answer_about
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import About
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.settings.approvers import airflow_user
from streamkeeper.operations.deploys.approval import asked_about, right_of
from streamkeeper.operations.deploys.questions import subject_of, who_may
from streamkeeper.operations.jobs.carriers import Carrier, read_carrier
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.viewer import DEPLOY, RECOVER, ROLLBACK, START, STATE_DEAD, STOP, Viewer


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """One button.

    ``path``: the path of the button's dialog, relative to the application's mount point; ``main``: whether the button
    is the most prominent one.
    """

    label: str
    path: str
    main: bool = False


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """The open question of an operation, and whether this viewer may answer it on the page."""

    job: str
    """The job's name."""
    operation: str
    """The operation's id."""
    about: About
    """The subject of the question."""
    subject: str
    """The question in one line."""
    dag: str
    """The DAG whose run executes the operation; empty without one."""
    task_path: str
    """The path, in Airflow's API, of the task that asks the question; empty if no task asks it."""
    may: str
    """Who may answer, as a phrase."""
    objection: str
    """Why this viewer may not answer, or cannot answer on the page; empty if the viewer can."""
    command: str
    """The shell command that answers the question."""


class Buttons(msgspec.Struct, frozen=True, kw_only=True):
    """The buttons of a job.

    ``question``: the question that waits for a person's answer, None if there is none; ``may_restore``: whether the
    viewer may restore the job's snapshots.
    """

    row: tuple[Button, ...] = ()
    question: Asking | None = None
    may_restore: bool = False


def read_buttons(
    installation: Installation, state: JobState, who: Viewer, *, runs: bool = True, rules: Collection[str] = ()
) -> Buttons:
    """Return the buttons that the viewer may use in the present state of the job, and the open question.

    ``installation``: the installation.
    ``state``: the job's state.
    ``who``: the viewer.
    ``runs``: whether the driver is running or may be running; only a job without a driver can be started.
    ``rules``: the rules of the symptoms that the watch found.
    """
    question = read_asking(installation, state, who)
    answer = (
        [Button(label="Approve or decline", path=f"jobs/{state.job}/dialogs/answer", main=True)]
        if question is not None and not question.objection
        else []
    )
    row = [
        Button(label=label, path=f"jobs/{state.job}/dialogs/{path}")
        for path, label in _offered(state, who, runs, rules)
    ]
    return Buttons(
        row=(*answer, *row),
        question=question,
        may_restore=bool(state.serving_release) and state.forgotten is None and who.may("run", RECOVER),
    )


def restore_path(job: str, query: str, snapshot: str) -> str:
    """Return the path of the dialog that restores one snapshot."""
    filled = {"action": RecoveryAction.RESTORE.value, "query": query, "snapshot": snapshot}
    return f"jobs/{job}/dialogs/recover?{urlencode(filled)}"


def read_asking(installation: Installation, state: JobState, who: Viewer) -> Asking | None:
    """Return the open question of the job's open operation; None without one. Raises StoreUnavailable."""
    operation = state.open_operation
    about = asked_about(operation) if operation is not None else None
    if operation is None or about is None or operation.abort or answer_about(operation, about) is not None:
        return None
    carrier = read_carrier(installation.store, state.job, operation.operation)
    return Asking(
        job=state.job,
        operation=operation.operation,
        about=about,
        subject=subject_of(state, operation),
        dag=carrier.dag if carrier is not None else "",
        task_path=_task_path(carrier, about),
        may=who_may(installation, state, operation),
        objection=_objection(installation, state, operation, about, carrier, who),
        command=f"streamkeeper approve {state.job} {operation.operation} --about {about.value} --reason …",
    )


def _objection(
    installation: Installation,
    state: JobState,
    operation: OperationState,
    about: About,
    carrier: Carrier | None,
    who: Viewer,
) -> str:
    if carrier is None or not carrier.dag:
        return "no DAG run continues this operation. Answer from the command line"
    if about.value not in carrier.asking:
        return f"which task of {carrier.dag} asks is not known yet. Answer from the command line, or reload this page"
    if not who.may("answer", carrier.dag):
        return f"{who.name} may not answer questions of {carrier.dag}"
    return right_of(installation, state, operation).objection(airflow_user(who.name))


def _task_path(carrier: Carrier | None, about: About) -> str:
    if carrier is None or about.value not in carrier.asking:
        return ""
    dag, run, task = (quote(part, safe="") for part in (carrier.dag, carrier.run, carrier.asking[about.value]))
    return f"dags/{dag}/dagRuns/{run}/taskInstances/{task}"


def _offered(state: JobState, who: Viewer, runs: bool, rules: Collection[str]) -> list[tuple[str, str]]:
    """Return the dialog path and the label of each applicable action, in display order.

    A person can state a driver's termination once the watch has reported ``driver-lost``. After that statement the
    watch reports ``owner-unproven``, and the job can be restored to continue in a copy of the checkpoint.
    """
    served = bool(state.serving_release) and state.forgotten is None
    free = served and state.open_operation is None
    offered = (
        ("deploy", "Deploy", DEPLOY, True),
        ("rollback", "Roll back", ROLLBACK, served and len(state.served) > 1),
        ("state-dead", "State termination", STATE_DEAD, free and "driver-lost" in rules),
        ("recover?action=restore", "Restore the copy", RECOVER, free and "owner-unproven" in rules),
        ("recover", "Recover", RECOVER, served),
        ("start", "Start", START, free and (state.stopped is not None or not runs)),
        ("stop", "Stop", STOP, free and state.stopped is None),
    )
    return [(path, label) for path, label, dag, meant in offered if meant and who.may("run", dag)]
