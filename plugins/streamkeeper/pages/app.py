"""The web application of the page: guarded routes, static files, response headers, and errors shown as one sentence."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import Response

from streamkeeper.errors import InvalidInput, NotFound, StreamkeeperError, TemporaryError
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.pages import dialog_routes, fleet_routes, job_routes, operation_routes
from streamkeeper.pages.headers import SafeHeaders
from streamkeeper.pages.rendering import render_error
from streamkeeper.pages.static_files import StaticPages
from streamkeeper.pages.viewer import Viewer

MakeRouter = Callable[[Callable[[], Installation], Callable[..., Viewer]], APIRouter]

ROUTERS: tuple[MakeRouter, ...] = (
    fleet_routes.router_of,
    job_routes.router_of,
    operation_routes.router_of,
    dialog_routes.router_of,
)
"""The functions ``router_of(site, viewer)`` of the modules with routes. All routes are GET and ``guarded``."""


def make_app(open_installation: Callable[[], Installation], viewer: Callable[..., Viewer]) -> FastAPI:
    """Create the application, which can be mounted at any path.

    ``open_installation``: returns the installation, read-only; each view calls it. ``viewer``: a FastAPI dependency
    that raises HTTPException 401 without a signed-in user.
    """
    app = FastAPI(title="Streamkeeper", openapi_url=None)
    for router_of in ROUTERS:
        app.include_router(router_of(open_installation, viewer))
    app.mount("/static", StaticPages())
    app.add_middleware(SafeHeaders)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(StreamkeeperError, _told)
    app.add_exception_handler(Exception, _unexpected)
    return app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnyHTTPException)
    sentence = error.detail
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        sentence = "you are not signed in. Sign in to Airflow, then reload this page"
    elif error.status_code == HTTPStatus.NOT_FOUND and not isinstance(error, HTTPException):
        # Raised by Starlette itself: no route matches.
        sentence = "this page does not exist"
    return render_error(request, error.status_code, sentence, headers=error.headers)


def _not_understood(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said = {str(each["loc"][1]): str(each["msg"]) for each in error.errors()}
    errors = "; ".join(f"{name}: {message}" for name, message in said.items())
    return render_error(request, HTTPStatus.BAD_REQUEST, f"this address cannot be read: {errors}")


def _told(request: Request, error: Exception) -> Response:
    match error:
        case NotFound() | InvalidInput():
            status = HTTPStatus.NOT_FOUND
        case TemporaryError():
            status = HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
    return render_error(request, status, str(error))


def _unexpected(request: Request, error: Exception) -> Response:
    """Report an unexpected error without its text, which may come from any source. The server logs the error."""
    return render_error(
        request, HTTPStatus.INTERNAL_SERVER_ERROR, "the page failed. See the log of Airflow's API server"
    )
