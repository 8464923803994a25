"""Renders templates. Every value is escaped, and a missing value is an error. A part that is rendered separately looks
the same as in the whole page.

All templates can use ``base`` (the page's mount point without trailing slash), ``airflow`` (Airflow's mount point),
``who`` (the Viewer, None on an error page), ``now`` (seconds since 1970) and ``static(name)`` (the address of a static
file).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from streamkeeper.model.watch.quantities import tell_age, tell_moment, tell_size
from streamkeeper.pages.headers import HEADERS
from streamkeeper.pages.static_files import static_path
from streamkeeper.pages.viewer import Viewer
from streamkeeper.system import clock

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    undefined=StrictUndefined,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FRAME = "base.html"
_TEMPLATES.filters |= {"age": tell_age, "size": tell_size, "moment": tell_moment}


def render(
    request: Request, who: Viewer, template: str, values: Mapping[str, Any], *, part: str = "", status: int = 200
) -> HTMLResponse:
    """Render a template; raises HTTPException 404 if the template has no block ``part``.

    ``request``: the request, for the mount point.
    ``who``: the viewer.
    ``template``: the template's file name.
    ``values``: the values for the template.
    ``part``: render only this block, which cannot use names that are imported or set outside of the block.
    ``status``: the status code of the answer.
    """
    found = _TEMPLATES.get_template(template)
    context = {**values, **_shared(request, who)}
    if not part:
        return HTMLResponse(found.render(context), status)
    # Blocks of the frame are not parts, because their values are not always read.
    if part not in found.blocks or part in _TEMPLATES.get_template(_FRAME).blocks:
        raise HTTPException(HTTPStatus.NOT_FOUND, "this part of the page does not exist")
    return HTMLResponse("".join(found.blocks[part](found.new_context(context))), status)


def render_error(request: Request, status: int, sentence: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a page, or as plain text if a script sent the request."""
    all_headers = {**HEADERS, **(headers or {})}
    if request.headers.get("HX-Request"):
        return PlainTextResponse(sentence, status, all_headers)
    context = {"status": status, "phrase": HTTPStatus(status).phrase, "sentence": sentence, **_shared(request, None)}
    return HTMLResponse(_TEMPLATES.get_template("error.html").render(context), status, all_headers)


def _shared(request: Request, who: Viewer | None) -> dict[str, Any]:
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return {
        "base": base,
        "airflow": base.rpartition("/")[0],
        "who": who,
        "now": clock.unix(),
        "static": lambda name: f"{base}/{static_path(name)}",
    }
