"""The building blocks of your own DAGs: task groups for deploy and rollback, operators, and assets for schedules."""

from streamkeeper.orchestration.backups import BackupOperator, ObjectiveOperator
from streamkeeper.orchestration.deploy_graph import deploy_streaming_job, roll_back_streaming_job
from streamkeeper.orchestration.deploy_tasks import OPERATIONS
from streamkeeper.orchestration.desired import StartOperator, StopOperator
from streamkeeper.orchestration.drill_task import DrillOperator
from streamkeeper.orchestration.prunes import PruneOperator
from streamkeeper.orchestration.query_tasks import FindOperator
from streamkeeper.orchestration.retrying import default_args
from streamkeeper.orchestration.watch_task import HEALTH, WatchOperator

__all__ = [
    "HEALTH",
    "OPERATIONS",
    "BackupOperator",
    "DrillOperator",
    "FindOperator",
    "ObjectiveOperator",
    "PruneOperator",
    "StartOperator",
    "StopOperator",
    "WatchOperator",
    "default_args",
    "deploy_streaming_job",
    "roll_back_streaming_job",
]
