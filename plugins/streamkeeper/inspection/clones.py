"""A query as a clone runs it beside its owner: it reads the same rows, and changes nothing outside of its scratch.

``docs/internals/clones.md`` lists what each source, sink and function of a clone can do, and what keeps it from
doing so.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from streamkeeper.errors import Unsupported
from streamkeeper.inspection.plan_sources import find_sources
from streamkeeper.jvm.classes import load_class
from streamkeeper.sources.promises import promise_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

OPTIONS = {"cleanSource": "off", "kafka.allow.auto.create.topics": "false"}
"""What every source of a clone is read with. A cleaner removes or moves what its query has committed; a consumer of a
topic that was deleted makes a new one."""
CONFS = {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false"}
"""Whoever asks for offsets in the old way joins the consumer group of ``kafka.group.id``, and takes partitions from its
owner."""

_EFFECT = re.compile(r"EffectInClone: (.*)")
_SOURCE = Path(__file__).with_name("ClonedPlan.java")
_GUARD = Path(__file__).with_name("clone_guard.py")
_PLANS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def clone_of(df: DataFrame) -> DataFrame:
    """The same streaming query in a session of its own, which no listener of the job's hears.

    Raises Unsupported for a source of which nothing is known.
    """
    from pyspark.sql import DataFrame, SparkSession

    given: Any = df
    analyzed = given._jdf.queryExecution().analyzed()
    for source in find_sources(analyzed):
        try:
            promise_of(source.kind)
        except Unsupported as error:
            raise Unsupported(f"a clone could change the data that it reads: {error.message}") from error
    context, session = df.sparkSession.sparkContext, given.sparkSession._jsparkSession.cloneSession()
    if context not in _PLANS:
        _PLANS[context] = load_class(df.sparkSession, _SOURCE).newInstance()
    for key, value in CONFS.items():
        session.conf().set(key, value)
    plan = _PLANS[context].of(session, analyzed, OPTIONS, guard())
    return DataFrame(plan, SparkSession(context, session))


def stopped_effect(message: str) -> str:
    """What a function of a clone was kept from doing, by an error's message; empty where it says nothing of that."""
    found = _EFFECT.search(message)
    return found[1].strip() if found else ""


@cache
def guard() -> bytes:
    """Pickled code that arms ``clone_guard`` in a worker and leaves nothing on the stack, to go before a function."""
    text = (_GUARD.read_text() + "\narm()\n").encode()
    size = len(text).to_bytes(4, "little")
    # The opcodes PROTO 2, GLOBAL, BINUNICODE, EMPTY_DICT, TUPLE2, REDUCE, POP: exec(text, {}), its result dropped.
    return b"\x80\x02cbuiltins\nexec\nX" + size + text + b"}\x86R0"
