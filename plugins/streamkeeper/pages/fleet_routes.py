"""``/``: the fleet, from the index that the watch writes."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request
from starlette.responses import Response

from streamkeeper.operations.installation import Installation
from streamkeeper.pages.rendering import render
from streamkeeper.pages.viewer import WATCH, Viewer, guarded
from streamkeeper.registry.fleet import read_index


def router_of(site: Callable[[], Installation], viewer: Callable[..., Viewer]) -> APIRouter:
    """The fleet's routes; ``viewer`` as in ``make_app``."""
    router = APIRouter()

    @router.get("/")
    def fleet(request: Request, part: str = "", who: Viewer = guarded(viewer, WATCH)) -> Response:
        here = site()
        index = read_index(here.store, here.id)
        rows = [row for row in index.rows if not row.forgotten] if index is not None else []
        return render(request, who, "fleet.html", {"index": index, "rows": rows}, part=part)

    return router
