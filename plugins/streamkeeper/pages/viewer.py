"""The viewer of a page and their rights to each DAG, as the application that mounts the page reports them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import Depends, HTTPException

DEPLOY = "streaming_deploy"
ROLLBACK = "streaming_rollback"
RECOVER = "streaming_recover"
START = "streaming_start"
STOP = "streaming_stop"
STATE_DEAD = "streaming_state_dead"
WATCH = "streaming_watch"

Right = Literal["see", "run", "answer"]
"""A right to a DAG: to read it, to create runs of it, or to answer questions of its runs."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The viewer of a page.

    ``name``: the viewer's name in Airflow; ``may(right, dag_id)``: whether the viewer has the right to the DAG.
    """

    name: str
    may: Callable[[Right, str], bool]


def guarded(viewer: Callable[..., Viewer], dag_id: str) -> Any:
    """Return a FastAPI dependency, as the default of a route's parameter ``who: Viewer``.

    The dependency returns the viewer, and raises HTTPException 403 if the viewer may not read the DAG. ``viewer``: a
    dependency that raises HTTPException 401 without a signed-in user.
    """

    def seeing(who: Viewer = Depends(viewer)) -> Viewer:
        if not who.may("see", dag_id):
            raise HTTPException(403, f"{who.name} may not read the DAG {dag_id}. Request read access to this DAG")
        return who

    return Depends(seeing)
