"""The static files of the page. They are part of the package, contain no job data, and need no login."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

STATIC = Path(__file__).with_name("static")
_KEPT_S = 24 * 3600


class StaticPages(StaticFiles):
    """Serves the static files, which browsers cache for a day. The address of a file contains the hash of its content,
    so a new version of a file has a new address.
    """

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return the response for a file, with the cache duration added."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = f"private, max-age={_KEPT_S}"
        return response


@cache
def static_path(name: str) -> str:
    """Return the relative address of a static file with its hash, such as ``static/page.css?v=0f3c…``."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"static/{name}?v={digest[:12]}"
