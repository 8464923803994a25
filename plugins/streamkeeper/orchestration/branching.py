"""A branch operator that skips every task of the branches that it does not take.

Airflow's branch operator skips only the first task of each such branch, and the scheduler then skips one more task per
pass. Between the assessment of a deploy and its handover, this would take five passes, or two seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow.sdk import BaseBranchOperator
from airflow.sdk.exceptions import DownstreamTasksSkipped

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


class BranchOperator(BaseBranchOperator):
    """Skips all tasks of the branches that are not taken, except tasks that also follow the taken branch.

    The operator skips tasks only within its own task group. Tasks after the group belong to a user's DAG, and have
    trigger rules of their own.
    """

    def skip_all_except(self, ti: RuntimeTaskInstanceProtocol, branch_task_ids: str | Iterable[str] | None) -> None:
        """Raise DownstreamTasksSkipped with the tasks to skip, as Airflow's method does.

        ``branch_task_ids``: the first tasks of the taken branches.
        """
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
