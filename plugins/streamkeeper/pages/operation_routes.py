"""``/jobs/{job}/operations/{operation}``, and the redirect to it from a DAG run."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from streamkeeper.compatibility.differences import Difference
from streamkeeper.errors import NotFound
from streamkeeper.model.names import check_instance, check_name
from streamkeeper.model.run_names import operation_id
from streamkeeper.operations.deploys.blast_radius import told_going_back
from streamkeeper.operations.deploys.questions import find_code_differences
from streamkeeper.operations.jobs.carriers import job_of
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.operation_record import OperationRecord, read_operation
from streamkeeper.pages.buttons import read_buttons
from streamkeeper.pages.operation_view import mask_for, view_operation
from streamkeeper.pages.rendering import render
from streamkeeper.pages.viewer import DEPLOY, Viewer, guarded
from streamkeeper.registry.journal import grew_beyond


def router_of(open_installation: Callable[[], Installation], viewer: Callable[..., Viewer]) -> APIRouter:
    """Return the routes of an operation's page; the arguments are those of ``make_app``."""
    router = APIRouter()

    @router.get("/jobs/{job}/operations/{operation}")
    def operation(
        request: Request,
        job: str,
        operation: str,
        part: str = "",
        after: int = 0,
        who: Viewer = guarded(viewer, DEPLOY),
    ) -> Response:
        """Render the page of an operation.

        ``part``: render only this part; ``after``: the number of the last journal entry that the client has seen.
        Without newer entries, the response has status 204.
        """
        here = open_installation()
        check_name("job", job)
        check_instance(operation)
        if after > 0 and not grew_beyond(here.store, job, after):
            return Response(status_code=204)
        record = read_operation(here, job, operation, again=bool(part))
        values = {
            "op": view_operation(record),
            "buttons": read_buttons(here, record.state, who),
            "asked_back": part == "back",
            "going_back": _going_back(here, record) if part == "back" else (),
            "asked_code": part == "code",
            "differences": _differences(here, record) if part == "code" else (),
        }
        return render(request, who, "operation.html", values, part=part)

    @router.get("/runs")
    def run(
        request: Request, dag: str, run: str, job: str = "", part: str = "", who: Viewer = guarded(viewer, DEPLOY)
    ) -> Response:
        """Redirect to the page of a DAG run's operation; 404 if the run has no recorded operation."""
        here, name = open_installation(), operation_id(dag, run)
        found = job_of(here.store, name) if not job else check_name("job", job)
        if not found or name not in read_job(here, found).operations:
            raise NotFound("this run has no recorded operation")
        base = str(request.scope.get("root_path", "")).rstrip("/")
        query = f"?part={quote(part, safe='')}" if part else ""
        return RedirectResponse(f"{base}/jobs/{found}/operations/{name}{query}", 303)

    return router


def _going_back(installation: Installation, record: OperationRecord) -> tuple[str, ...]:
    return tuple(map(mask_for(record), told_going_back(installation, record).values()))


def _differences(installation: Installation, record: OperationRecord) -> tuple[Difference, ...]:
    """Return the differences between the previous release and that of the operation; empty if one is missing."""
    release = record.operation.release
    return (
        find_code_differences(installation, record.state, record.before, release) if record.before and release else ()
    )
