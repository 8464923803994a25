"""Templates to HTML: every value is escaped, a missing one is an error, and a part is rendered as in the whole page.

What every template has: ``base``: where the page is mounted, without a slash at its end; ``airflow``: the same of
Airflow; ``who``: the Viewer, None on an error's page; ``now``: seconds since 1970; ``static(name)``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from streamkeeper.model.quantities import tell_age, tell_moment, tell_size
from streamkeeper.pages.headers import HEADERS
from streamkeeper.pages.static_files import static_path
from streamkeeper.pages.viewer import Viewer

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
    """A template as a page, or only its block ``part``; raises HTTPException 404 where it has no such block of its own.

    A block that is rendered alone sees no name that the template imports or sets outside of it.
    """
    found = _TEMPLATES.get_template(template)
    context = {**values, **_shared(request, who)}
    if not part:
        return HTMLResponse(found.render(context), status)
    # Those of the frame that all pages have are no parts: what stands in them is not always read.
    if part not in found.blocks or part in _TEMPLATES.get_template(_FRAME).blocks:
        raise HTTPException(HTTPStatus.NOT_FOUND, "this part of the page does not exist")
    return HTMLResponse("".join(found.blocks[part](found.new_context(context))), status)


def render_error(request: Request, status: int, sentence: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """One sentence: as a page, or as the bare text where a script asks for a part of one."""
    told = {**HEADERS, **(headers or {})}
    if request.headers.get("HX-Request"):
        return PlainTextResponse(sentence, status, told)
    context = {"status": status, "phrase": HTTPStatus(status).phrase, "sentence": sentence, **_shared(request, None)}
    return HTMLResponse(_TEMPLATES.get_template("error.html").render(context), status, told)


def _shared(request: Request, who: Viewer | None) -> dict[str, Any]:
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return {
        "base": base,
        "airflow": base.rpartition("/")[0],
        "who": who,
        "now": time.time(),
        "static": lambda name: f"{base}/{static_path(name)}",
    }
