"""The page in Airflow's UI: where it appears, which installation it shows, and the rights of its viewer."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.configuration import conf

from streamkeeper.pages.page_address import PREFIX, ROUTE

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from fastapi import FastAPI

    from streamkeeper.operations.jobs.installation import Installation
    from streamkeeper.pages.viewer import Viewer


async def page_app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Serve the page as an ASGI application, which is created on the first request.

    Every Airflow process imports the plugin, but only the API server needs the modules of the page.
    """
    await _app()(scope, receive, send)


def page_views() -> list[dict[str, Any]]:
    """Return the page's entry in Airflow's navigation bar, and its tab in DAG runs.

    Every DAG run has the tab, because Airflow shows such tabs for all DAGs or for none.
    """
    mounted = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX
    return [
        {
            "name": "Streaming",
            "href": f"{mounted}/",
            "destination": "nav",
            "url_route": ROUTE,
            "nav_top_level": True,
        },
        {
            "name": "Streaming operation",
            "href": f"{mounted}/runs?dag={{DAG_ID}}&run={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": f"{ROUTE}-operation",
        },
    ]


@cache
def _app() -> FastAPI:
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import Depends

    from streamkeeper.pages.app import make_app

    def viewer(user: Any = Depends(get_user)) -> Viewer:
        return viewer_of(user)

    return make_app(_installation, viewer)


def viewer_of(user: BaseUser) -> Viewer:
    """Return the viewer for an Airflow user, with the rights that Airflow's auth manager grants.

    Each page checks these rights anew, in the same way as Airflow.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
    from airflow.models.dag import DagModel

    from streamkeeper.pages.viewer import Right, Viewer

    asked: dict[Right, dict[str, Any]] = {
        "see": {"method": "GET", "access_entity": None},
        "run": {"method": "POST", "access_entity": DagAccessEntity.RUN},
        "answer": {"method": "PUT", "access_entity": DagAccessEntity.HITL_DETAIL},
    }

    def may(right: Right, dag_id: str) -> bool:
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        return bool(get_auth_manager().is_authorized_dag(**asked[right], details=details, user=user))

    return Viewer(name=user.get_name(), may=may)


def _installation() -> Installation:
    """Return the installation of the API server, read-only. Reopens it after ``home new`` or ``home moved``.

    Sends one request to the store, and more the first time. Raises HTTPException 503 if the settings are wrong.
    """
    from streamkeeper.registry.installations import newest_record

    opened = _opened()
    if newest_record(opened.store) == (opened.record.number if opened.record is not None else 0):
        return opened
    _opened.cache_clear()
    return _opened()


@cache
def _opened() -> Installation:
    from fastapi import HTTPException

    from streamkeeper.errors import InvalidInput
    from streamkeeper.operations.jobs.installation import Installation

    try:
        return Installation.from_environment(os.environ, read_only=True)
    except InvalidInput as error:
        raise HTTPException(503, f"the API server's settings are wrong: {error}") from None
