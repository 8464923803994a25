"""Finds the settings of the state store with which Spark can read a checkpoint's state as it was written.

Spark stores only some of these settings in the checkpoint. Its state reader refuses state files with ids in their names
if the session's settings are for files without ids, and the other way round (measured with 4.2.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamkeeper.checkpoints.facts import read_facts
from streamkeeper.checkpoints.trees import Tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FORMAT_WITH_IDS = 2


def state_layout(checkpoint: Tree) -> dict[str, str]:
    """Return the confs for the layout of a checkpoint's state, to the extent that its logs record it.

    The layout follows from whether commits name state files. Without state, commits name no state files in any layout,
    so the result is empty. Raises CheckpointDamaged if the logs are damaged.
    """
    facts = read_facts(checkpoint.fresh())
    if "state/" not in checkpoint.fresh().names(""):
        return {}
    found = {}
    if facts.conf.get(_PROVIDER):
        found[_PROVIDER] = facts.conf[_PROVIDER]
    if facts.checkpoint_format is not None:
        found[_FORMAT] = str(facts.checkpoint_format)
        if facts.checkpoint_format != _FORMAT_WITH_IDS:
            found[_CHANGELOG] = "false"
    return found


@contextmanager
def session_for(spark: SparkSession, checkpoint: Tree) -> Iterator[SparkSession]:
    """Provide a separate session with the confs of the checkpoint's state layout.

    The session is the active one within this context, because Spark's state reader uses the active session. Raises
    CheckpointDamaged if the checkpoint's logs are damaged.
    """
    layout = state_layout(checkpoint)
    session = spark.newSession()
    for key, value in layout.items():
        session.conf.set(key, value)
    jvm: Any = session._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield session
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
