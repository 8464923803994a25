"""``/jobs/JOB``: the page of a job, whose expensive parts load on demand, and the measurements as JSON for its
charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, HTTPException, Query, Request
from starlette.responses import Response

from streamkeeper.model.coding import to_json
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.buttons import restore_path
from streamkeeper.pages.job_page import JobPage
from streamkeeper.pages.parts import Part
from streamkeeper.pages.rendering import render
from streamkeeper.pages.viewer import DEPLOY, Viewer, guarded

_PARTS: dict[str, Callable[[JobPage], Part[Any]]] = {
    "standing": JobPage.standing,
    "health": JobPage.health,
    "charts": JobPage.charts,
    "release": JobPage.release,
    "queries": JobPage.queries,
}
_ON_DEMAND: dict[str, Callable[[JobPage], Part[Any]]] = {
    "findings": JobPage.findings,
    "snapshots": JobPage.snapshots,
    "log": JobPage.log,
    "readers": JobPage.readers,
}
"""Parts that need many requests and are loaded only on demand."""
TIMELINE = "timeline"
_WITH_BUTTONS = ("buttons", "snapshots")


def router_of(open_installation: Callable[[], Installation], viewer: Callable[..., Viewer]) -> APIRouter:
    """Return the routes of a job's page; the arguments are those of ``make_app``."""
    router = APIRouter()

    @router.get("/jobs/{job}")
    def show(
        request: Request,
        job: str,
        part: str = "",
        opened: str = Query("", alias="open"),
        before: int = 0,
        who: Viewer = guarded(viewer, DEPLOY),
    ) -> Response:
        """Render the page. ``part``: only this part; ``open``: include this part, which otherwise loads on demand;
        ``before``: show the operations before this journal entry."""
        if opened and opened not in _ON_DEMAND:
            raise HTTPException(404, "this part of the page does not exist")
        page = JobPage(open_installation(), job, again=bool(part))
        wanted = (part,) if part else (*_PARTS, TIMELINE, opened)
        readers = {**_PARTS, **_ON_DEMAND}
        read: dict[str, Any] = {name: readers[name](page) for name in wanted if name in readers}
        if TIMELINE in wanted:
            read[TIMELINE] = page.timeline(before)
        if not part or part in _WITH_BUTTONS:
            read["buttons"] = page.buttons(who)
        shared = {"job": page.job, "before": before, "restore_path": restore_path}
        values = {**dict.fromkeys(_ON_DEMAND), **read, **shared}
        return render(request, who, "job.html", values, part=part)

    @router.get("/jobs/{job}/history.json")
    def history(job: str, who: Viewer = guarded(viewer, DEPLOY)) -> Response:
        found = JobPage(open_installation(), job, again=True).charts()
        if found.value is None:
            return Response(to_json({"missing": found.missing}), 503, media_type="application/json")
        return Response(to_json(found.value), media_type="application/json")

    return router
