"""``python -m streamkeeper.driver.drill <conf as JSON>``: a process that runs drills of restored checkpoints.

It reads a DrillRequest per line from stdin and answers each with a DrillAnswer per line on stdout, in the same order,
in one Spark session; stdout has no other output. ``conf``: settings that only a starting Spark accepts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.checkpoints.fsck import examine
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility.checkpoint_damage import damage_findings
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import PlannedQuery
from streamkeeper.driver.job_sessions import build_job
from streamkeeper.driver.queries import restore_confs
from streamkeeper.driver.worker_server import answer_lines, end
from streamkeeper.errors import CheckpointDamaged, NotFound
from streamkeeper.inspection.resume_proof import drill
from streamkeeper.inspection.state_layout import state_layout
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.finding import Verdict, verdict_of
from streamkeeper.model.protocol.drill_messages import DrillAnswer, DrillRequest
from streamkeeper.system import clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Driller:
    """Answers drill requests, one after the other, in one Spark session."""

    def __init__(self, spark: SparkSession, scratch: Path, secrets: Mapping[str, str]) -> None:
        self._spark = spark
        self._secrets = secrets

    def answer(self, line: bytes) -> DrillAnswer:
        """Return the result of the drill; an unusable request or job counts as a failure. Raises no error."""
        started = clock.monotonic()
        root = None
        try:
            request = from_json(line, DrillRequest, where="request")
            root = Path(request.job.root)
            return self._drill(request)
        except Exception as error:
            return DrillAnswer(
                ok=False,
                message=" ".join(describe_fault(error, root).split()),
                seconds=clock.monotonic() - started,
                error_class=type(error).__name__,
            )

    def _drill(self, request: DrillRequest) -> DrillAnswer:
        checkpoint = tree_at(request.checkpoint)
        planned = build_job(self._spark, request.job, state_layout(checkpoint), self._secrets)
        chosen = planned.get(request.query)
        if chosen is None:
            raise NotFound(
                f"there is no query {request.query}",
                hint=f"name one of the job's queries: {', '.join(sorted(planned))}",
            )
        _must_be_whole(checkpoint, chosen)
        session = chosen.query.df.sparkSession
        restore_confs(session, chosen.confs)
        return drill(session, chosen.query, checkpoint, request.batch, timeout_s=request.timeout_s)


def _must_be_whole(checkpoint: Tree, planned: PlannedQuery) -> None:
    """Raise CheckpointDamaged for damage that only files show: Spark's reader silently skips a missing partition."""
    findings = damage_findings(examine(checkpoint.fresh(), stateful=bool(planned.manifest.operators)))
    worst = [finding for finding in findings if verdict_of([finding]) is Verdict.REFUSE]
    if worst:
        raise CheckpointDamaged(f"{worst[0].rule}: {worst[0].evidence}: {worst[0].effect}")


if __name__ == "__main__":
    end(answer_lines(sys.argv[1:], "drill", lambda *arguments: Driller(*arguments).answer))
