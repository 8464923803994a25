"""Clones of queries. A clone reads the same rows as the query, and changes nothing outside of its scratch space.

``docs/internals/clones.md`` lists the possible effects of each source, sink and function of a clone, and what prevents
them.
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
from streamkeeper.sources.known_sources import clone_confs, clone_options, promise_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

_EFFECT = re.compile(r"EffectInClone: (.*)")
_SOURCE = Path(__file__).with_name("ClonedPlan.java")
_GUARD = Path(__file__).with_name("clone_guard.py")
_PLANS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def clone_of(df: DataFrame) -> DataFrame:
    """Return the same streaming query in a separate session, which the job's listeners do not observe.

    Raises Unsupported for an unknown source.
    """
    from pyspark.sql import DataFrame, SparkSession

    proxy: Any = df
    analyzed = proxy._jdf.queryExecution().analyzed()
    for source in find_sources(analyzed):
        try:
            promise_of(source.kind)
        except Unsupported as error:
            raise Unsupported(f"a clone could change the data that it reads: {error.message}") from error
    context, session = df.sparkSession.sparkContext, proxy.sparkSession._jsparkSession.cloneSession()
    if context not in _PLANS:
        _PLANS[context] = load_class(df.sparkSession, _SOURCE).newInstance()
    for key, value in clone_confs().items():
        session.conf().set(key, value)
    plan = _PLANS[context].of(session, analyzed, clone_options(), guard())
    return DataFrame(plan, SparkSession(context, session))


def stopped_effect(message: str) -> str:
    """Return the effect that the guard stopped, taken from an error's message; empty if the message names none."""
    found = _EFFECT.search(message)
    return found[1].strip() if found else ""


@cache
def guard() -> bytes:
    """Return a pickle that arms ``clone_guard`` in a worker. The caller puts this pickle before a pickled function.
    This works because the pickle leaves no value on the unpickler's stack.
    """
    text = (_GUARD.read_text() + "\narm()\n").encode()
    size = len(text).to_bytes(4, "little")
    # The opcodes PROTO 2, GLOBAL, BINUNICODE, EMPTY_DICT, TUPLE2, REDUCE, POP: exec(text, {}), its result dropped.
    return b"\x80\x02cbuiltins\nexec\nX" + size + text + b"}\x86R0"
