"""Check whether an operation's id is reused with the request that started the operation, as by a task that
runs twice.
"""

from __future__ import annotations

import msgspec
from msgspec import to_builtins

from streamkeeper.errors import OperationRefused
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.requests.request import DeployRequest


def as_asked(request: DeployRequest) -> DeployRequest:
    """Return the request without inherited values and without the requester, to compare two requests."""
    return msgspec.structs.replace(
        request,
        params={} if request.inherit_params else request.params,
        conf={} if request.inherit_conf else request.conf,
        inherited_from="",
        not_inherited=(),
        requested_by="",
    )


def must_be_the_same(started: OperationState, request: DeployRequest) -> None:
    """Raise OperationRefused if an operation's id is used with another request; the requester may differ."""
    was, now = to_builtins(as_asked(started.request)), to_builtins(as_asked(request))
    if was == now:
        return
    differs = ", ".join(sorted(key for key in now if now[key] != was[key]))
    over = started.outcome is not None
    what = f"has ended: {started.sentence}" if over else "is open"
    hint = "trigger a new run with a new run id"
    raise OperationRefused(
        f"operation id {started.operation} of job {request.job} belongs to another request, which differs in {differs}."
        f" That operation {what}",
        hint=hint if over else f"{hint}, and with on_open=continue or on_open=abort",
    )
