"""The assessment as markdown, for the task log and the run's XCom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkeeper.model.coding import from_json
from streamkeeper.model.finding import Assessment, Finding

if TYPE_CHECKING:
    from streamkeeper.model.job_state import OperationState
    from streamkeeper.stores.contract import Store


def read_assessment(store: Store, job: str, report: str) -> Assessment:
    """The stored assessment; raises RegistryDamaged when it cannot be read."""
    from streamkeeper.registry.objects import read_object

    data = read_object(store, job, "reports", report, ".json")
    return from_json(data, Assessment, where=f"report {report}")


def render_assessment(store: Store, job: str, operation: OperationState) -> str:
    """A heading with the verdict, then a table of the findings."""
    return render_findings(operation.verdict_sentence, read_assessment(store, job, operation.report))


def render_findings(sentence: str, assessment: Assessment) -> str:
    """Markdown: the sentence, and a row for each finding of each query."""
    lines = [f"### {assessment.verdict.name}", "", sentence, ""]
    rows = [_row(query, finding) for query, each in assessment.queries.items() for finding in each.findings]
    if not rows:
        return "\n".join([*lines, "Nothing found that touches state, offsets or output."])
    head = ["| query | finding | asks for | evidence | way out |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *head, *rows])


def _row(query: str, finding: Finding) -> str:
    cells = (query, finding.rule, finding.severity.value, f"{finding.where}: {finding.evidence}", finding.hint)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
