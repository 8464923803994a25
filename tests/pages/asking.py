"""Requests the page as a browser does, but without a server: on a separate installation, with a viewer whose rights the
test chooses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
from fastapi import FastAPI, HTTPException, Request
from starlette.applications import Starlette
from starlette.routing import Mount

from streamkeeper.model.settings.settings import read_settings
from streamkeeper.model.watch.fleet_index import FleetIndex, JobRow
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages.app import make_app
from streamkeeper.pages.viewer import Right, Viewer
from streamkeeper.registry.fleet import write_index
from streamkeeper.registry.installations import open_installation
from streamkeeper.stores.contract import Store
from streamkeeper.stores.local import LocalStore

NAME = "X-Viewer"
"""The header that contains the user's name in these tests; a request without it is not signed in."""


def everything(right: Right, dag_id: str) -> bool:
    """Grant every right, as to an admin."""
    return True


def reads(right: Right, dag_id: str) -> bool:
    """Grant only the right to see, as SimpleAuthManager does to a viewer."""
    return right == "see"


def make_site(root: Path, store: Store | None = None) -> Installation:
    """Return an empty installation; ``store`` replaces the store in a directory."""
    settings = read_settings({"STREAMKEEPER_HOME": str(root / "home"), "STREAMKEEPER_JOBS": str(root / "jobs")})
    found = store or LocalStore(root / "store")
    return Installation.of(settings, found, {}, open_installation(found, settings.home))


def leave_index(site: Installation, *rows: JobRow, started: float = 1_800_000_000.0) -> None:
    """Write the index that a pass of the watch would have left."""
    write_index(site.store, FleetIndex(number=7, started=started, installation=site.id, rows=rows))


def make_viewed(
    site: Callable[[], Installation] | Installation, may: Callable[[Right, str], bool] = everything
) -> FastAPI:
    """Return the application, with the viewer that the request's header names."""

    def viewer(request: Request) -> Viewer:
        name = request.headers.get(NAME)
        if not name:
            raise HTTPException(401, "Not authenticated")
        return Viewer(name=name, may=may)

    return make_app(site if callable(site) else lambda: site, viewer)


def get(
    app: FastAPI,
    path: str,
    *,
    who: str = "ada",
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    under: str = "",
) -> httpx.Response:
    """Send one request and return the response; ``under`` is the path at which the application is mounted, as in
    Airflow.
    """
    mounted = Starlette(routes=[Mount(under, app)]) if under else app
    told = {**({NAME: who} if who else {}), **(headers or {})}

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(mounted, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return await client.request(method, under + path, headers=told)

    return asyncio.run(ask())
