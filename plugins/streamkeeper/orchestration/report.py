"""The stored assessment of an operation as markdown, for the task log and the run's XCom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.compatibility.report import render_markdown
from streamkeeper.model.coding import from_json
from streamkeeper.model.finding import Assessment

if TYPE_CHECKING:
    from streamkeeper.model.job_state import OperationState
    from streamkeeper.stores.contract import Store


def render_assessment(store: Store, job: str, operation: OperationState) -> str:
    """What the operation's verdict says, then what was found; raises RegistryDamaged when it cannot be read."""
    from streamkeeper.registry.objects import read_object

    data = read_object(store, job, "reports", operation.report, ".json")
    assessment = from_json(data, Assessment, where=f"report {operation.report}")
    return f"{render_markdown(assessment)}\n{operation.verdict_sentence}\n"
