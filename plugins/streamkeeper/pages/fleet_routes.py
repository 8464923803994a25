"""``/``: the fleet page, made from the index that the watch writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from streamkeeper.errors import FormatTooNew, NotFound, RegistryDamaged
from streamkeeper.model.watch.fleet_words import tell_status
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.fleet_view import (
    COLUMNS,
    LARGEST_FIRST,
    NUMBERS,
    Column,
    FleetFilter,
    Health,
    UnderWay,
    view_fleet,
)
from streamkeeper.pages.rendering import render
from streamkeeper.pages.viewer import WATCH, Viewer, guarded
from streamkeeper.registry.fleet import open_index
from streamkeeper.system import clock

_REFRESH_S = 5
_FIELDS = {
    "health": {"wrong": "any problem", "page": "page", "ticket": "ticket", "info": "info", "well": "healthy"},
    "standing": {standing.value: tell_status(standing) for standing in JobStatus},
    "under_way": {"open": "any operation", "waits": "waits for a person"},
}
"""Filter -> its values in the address and their labels."""


def router_of(open_installation: Callable[[], Installation], viewer: Callable[..., Viewer]) -> APIRouter:
    """Return the routes of the fleet page; the arguments are those of ``make_app``."""
    router = APIRouter()

    @router.get("/")
    def fleet(
        request: Request,
        part: Literal["", "jobs"] = "",
        chosen: FleetFilter = Depends(_chosen),
        who: Viewer = guarded(viewer, WATCH),
    ) -> Response:
        """Render the page. To read the index, it sends one request to the store; opening the installation may send
        others."""
        here, now = open_installation(), clock.unix()
        values = {"chosen": chosen, "refresh_s": _REFRESH_S, "view": None, "missing": "", "fields": _FIELDS}
        values |= {"columns": COLUMNS, "numbers": NUMBERS, "largest_first": LARGEST_FIRST}
        try:
            values["view"] = view_fleet(open_index(here.store, here.id), chosen, now=now)
        except (NotFound, RegistryDamaged, FormatTooNew) as error:
            values["missing"] = str(error)
        answer = render(request, who, "fleet.html", values, part=part)
        if part:
            answer.headers["HX-Replace-Url"] = chosen.address()
        return answer

    return router


def _chosen(
    search: Annotated[str, Query(max_length=200)] = "",
    standing: JobStatus | Literal[""] = "",
    health: Health = "",
    under_way: UnderWay = "",
    owner: Annotated[str, Query(max_length=200)] = "",
    sort: Column = "health",
    turned: bool | Literal[""] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> FleetFilter:
    return FleetFilter(search.strip(), standing, health, under_way, owner, sort, bool(turned), page)
