"""The state store's settings with which Spark reads a checkpoint's state as it was written.

Spark pins some of them to the checkpoint and not the others: its state reader refuses state files with ids in their
names when the session says that there are none, and the other way round (measured, 4.2.0).
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
    """Confs that say how the checkpoint's state is stored, as far as its logs tell; raises CheckpointDamaged.

    Nothing of one without state: its commits name no state files, whatever the session says.
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
    """A session of its own with the checkpoint's layout, and the active one as long as it lasts.

    Spark's state reader asks the active session. Raises CheckpointDamaged.
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
