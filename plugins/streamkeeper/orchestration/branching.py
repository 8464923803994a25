"""A branch that skips all of the ways it does not take.

Airflow's own skips where they begin. The scheduler would then skip one task of each a pass: five passes, two seconds,
between the assessment of a deploy and its handover.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow.sdk import BaseBranchOperator
from airflow.sdk.exceptions import DownstreamTasksSkipped

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


class BranchOperator(BaseBranchOperator):
    """Skips what follows on the ways that are not taken, unless it follows on the taken one as well.

    Only in the task group that the branch stands in: what somebody has put behind one of its tasks has a rule of its
    own.
    """

    def skip_all_except(self, ti: RuntimeTaskInstanceProtocol, branch_task_ids: str | Iterable[str] | None) -> None:
        """``branch_task_ids``: where the taken ways begin; raises DownstreamTasksSkipped, as Airflow's does."""
        taken = {branch_task_ids} if isinstance(branch_task_ids, str) else {*(branch_task_ids or ())}
        try:
            super().skip_all_except(ti, taken)
        except DownstreamTasksSkipped as skipped:
            first = {task if isinstance(task, str) else task[0] for task in skipped.tasks}
            left_out = self._with_what_follows(first) - self._with_what_follows(taken)
            raise DownstreamTasksSkipped(tasks=sorted(left_out & self._own_group() | first)) from None

    def _with_what_follows(self, tasks: set[str]) -> set[str]:
        dag = self.get_dag()
        assert dag is not None
        return tasks.union(*(dag.get_task(task).get_flat_relative_ids(upstream=False) for task in tasks))

    def _own_group(self) -> set[str]:
        group = self.task_group
        assert group is not None
        return {task.task_id for task in group.iter_tasks()}
