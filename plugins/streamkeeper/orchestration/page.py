"""The page in Airflow's own UI: where it is shown, whose installation it shows, and what Airflow lets its viewer do."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.configuration import conf

if TYPE_CHECKING:
    from fastapi import FastAPI

    from streamkeeper.operations.installation import Installation

PREFIX = "/streamkeeper"
"""Where it is mounted in Airflow's API server."""


async def page_app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """The page as an ASGI application, made when it is asked for: every process of Airflow's imports the plugin, and
    only its API server needs what stands behind a page."""
    await _app()(scope, receive, send)


def page_view() -> dict[str, Any]:
    """Its entry of its own in Airflow's bar."""
    below = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return {
        "name": "Streaming jobs",
        "href": f"{below}{PREFIX}/",
        "destination": "nav",
        "url_route": "streamkeeper",
        "nav_top_level": True,
    }


@cache
def _app() -> FastAPI:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.api_fastapi.core_api.security import get_user
    from airflow.models.dag import DagModel
    from fastapi import Depends

    from streamkeeper.pages.app import make_app
    from streamkeeper.pages.viewer import Right, Viewer

    asked: dict[Right, dict[str, Any]] = {
        "see": {"method": "GET", "access_entity": None},
        "run": {"method": "POST", "access_entity": DagAccessEntity.RUN},
        "answer": {"method": "PUT", "access_entity": DagAccessEntity.HITL_DETAIL},
    }
    """What Airflow itself asks before it does the same."""

    def viewer(user: Any = Depends(get_user)) -> Viewer:
        def may(right: Right, dag_id: str) -> bool:
            details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
            return get_auth_manager().is_authorized_dag(**asked[right], details=details, user=user)

        return Viewer(name=user.get_name(), may=may)

    return make_app(_site, viewer)


@cache
def _site() -> Installation:
    """The API server's own, for looking only; it is asked again as long as it cannot be had."""
    from streamkeeper.operations.installation import Installation

    return Installation.from_environment(os.environ, looking=True)
