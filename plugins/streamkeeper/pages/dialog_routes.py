"""``/jobs/{job}/dialogs/{name}``: the dialogs of a job's buttons. The routes change nothing; the scripts of the dialogs
call Airflow.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from streamkeeper.errors import NotFound
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.pages import dialogs
from streamkeeper.pages.buttons import read_asking
from streamkeeper.pages.dialogs import Dialog
from streamkeeper.pages.rendering import render
from streamkeeper.pages.viewer import DEPLOY, Viewer, guarded
from streamkeeper.system import clock

_PLAIN: Mapping[str, Callable[[JobState], Dialog]] = {
    "deploy": dialogs.deploy_dialog,
    "rollback": dialogs.rollback_dialog,
    "stop": dialogs.stop_dialog,
    "start": dialogs.start_dialog,
    "state-dead": dialogs.state_dead_dialog,
}


def router_of(open_installation: Callable[[], Installation], viewer: Callable[..., Viewer]) -> APIRouter:
    """Return the routes of the dialogs; the arguments are those of ``make_app``."""
    router = APIRouter()

    @router.get("/jobs/{job}/dialogs/answer")
    def answer(request: Request, job: str, who: Viewer = guarded(viewer, DEPLOY)) -> Response:
        here = open_installation()
        question = read_asking(here, read_job(here, job), who)
        if question is None:
            raise NotFound(f"no operation of job {job} has an open question")
        if question.objection:
            raise HTTPException(403, question.objection)
        return render(request, who, "answer_dialog.html", {"question": question})

    @router.get("/jobs/{job}/dialogs/recover")
    def recover(
        request: Request,
        job: str,
        action: str = "",
        query: str = "",
        snapshot: str = "",
        who: Viewer = guarded(viewer, DEPLOY),
    ) -> Response:
        state = read_job(open_installation(), job)
        made = dialogs.recover_dialog(state, action=action, query=query, snapshot=snapshot)
        return _shown(request, who, job, made)

    @router.get("/jobs/{job}/dialogs/{name}")
    def plain(request: Request, job: str, name: str, who: Viewer = guarded(viewer, DEPLOY)) -> Response:
        if name not in _PLAIN:
            raise NotFound("this dialog does not exist")
        return _shown(request, who, job, _PLAIN[name](read_job(open_installation(), job)))

    return router


def new_run_id() -> str:
    """Return an id for the run that a dialog creates, so that sending the dialog twice creates one run."""
    return f"page__{clock.now():%Y%m%dT%H%M%SZ}_{secrets.token_hex(4)}"


def _shown(request: Request, who: Viewer, job: str, dialog: Dialog) -> Response:
    if not who.may("run", dialog.dag):
        raise HTTPException(403, f"{who.name} may not run {dialog.dag}. Request the right to create runs of this DAG")
    return render(request, who, "dialog.html", {"dialog": dialog, "job": job, "run": new_run_id()})
