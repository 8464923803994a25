"""The viewer of a page and their rights to each DAG, as the mounting application reports them."""

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
"""To read a DAG; to create runs of it; to answer questions of its runs."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """``name``: their name in Airflow; ``may``: whether they have a right to the DAG with this id."""

    name: str
    may: Callable[[Right, str], bool]


def guarded(viewer: Callable[..., Viewer], dag_id: str) -> Any:
    """The default of a route's ``who: Viewer``: the viewer, if they may see the DAG.

    ``viewer``: a FastAPI dependency that raises HTTPException 401 without a signed-in user; 403 is raised here.
    """

    def seeing(who: Viewer = Depends(viewer)) -> Viewer:
        if not who.may("see", dag_id):
            raise HTTPException(403, f"{who.name} may not read the DAG {dag_id}: request read access to it")
        return who

    return Depends(seeing)
