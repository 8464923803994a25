"""The declaration of the runner whose drivers are process trees on the machine that starts them."""

from __future__ import annotations

from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.runner_kinds.runner_kind import RunnerKind

LOCAL_KIND = RunnerKind(
    name=LOCAL,
    title="the machine of the task or command",
    runner="streamkeeper.runners.local_process:LocalProcessRunner",
    on_nodes=False,
)
