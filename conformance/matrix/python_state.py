"""Cases of state that Python code keeps: applyInPandasWithState and transformWithState."""

from __future__ import annotations

from conformance.matrix.case import STATE_STORE, Case, Job, in_group

_APPLY = """
import pandas as pd
from pyspark.sql.streaming.state import GroupStateTimeout


def keep(key, frames, state):
    {lines}
    new = 0
    for frame in frames:
        new = {step}
    {read}
    state.update((new,))
    yield pd.DataFrame({{"k": [key[0]], "s": [new]}})
"""
_OLD_FIRST = "new = state.get[0] if state.exists else 0"


def _apply(
    step: str = "new + int(frame.x.sum())",
    *,
    key: str = '"k"',
    state: str = "n long",
    timeout: str = "NoTimeout",
    read: str = "",
    lines: str = "",
) -> Job:
    call = f'applyInPandasWithState(keep, "k string, s long", "{state}", "update", GroupStateTimeout.{timeout})'
    top = _APPLY.format(lines=lines or "pass", step=step, read=read)
    top = top.replace("    new = 0\n", f"    {_OLD_FIRST}\n")
    return Job(f"s.groupBy({key}).{call}", top=top)


_TRANSFORM = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Keep(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.kept = handle.get{kind}State("{name}", "{schema}"{ttl}){more}

    def handleInputRows(self, key, rows, timers):
        {load}
        for row in rows:
            n = {step}
        {store}
        yield Row(k=key[0], s=n)

    def close(self):
        pass
"""


def _transform(
    step: str = "n + row.x",
    *,
    key: str = '"k"',
    name: str = "cnt",
    schema: str = "n long",
    kind: str = "Value",
    ttl: str = "",
    more: str = "",
    load: str = "n = self.kept.get()[0] if self.kept.exists() else 0",
    store: str = "self.kept.update((n,))",
    time: str = "None",
) -> Job:
    top = _TRANSFORM.format(kind=kind, name=name, schema=schema, ttl=ttl, more=more, load=load, step=step, store=store)
    return Job(f's.groupBy({key}).transformWithState(Keep(), "k string, s long", "update", "{time}")', top=top)


APPLY = _apply()
KEEP = _transform()
_ROCKS = ("rocksdb",)
_AVRO = {f"{STATE_STORE}encodingFormat": "avro"}
_TWO_FIELDS = {"schema": "n long, m long", "store": "self.kept.update((n, 1))"}


def _tws(
    name: str,
    change: str,
    new: Job,
    cause: str = "python",
    *,
    old: Job = KEEP,
    opaque: bool = True,
    avro: bool = False,
    **more: object,
) -> Case:
    return Case(name, change, old, new, cause, providers=_ROCKS, opaque=opaque, conf=_AVRO if avro else {}, **more)  # type: ignore[arg-type]


CASES = in_group(
    "python_state",
    Case("apws_same", "control: unchanged", APPLY, APPLY, "none", providers=_ROCKS),
    Case(
        "apws_logic",
        "logic sum -> max, same state schema",
        APPLY,
        _apply("max(new, int(frame.x.max()))"),
        "python",
        opaque=True,
    ),
    Case(
        "apws_filter_below",
        "x > 1 -> x > 4 below",
        APPLY.but(df=APPLY.df.replace("s.groupBy", 's.filter("x > 1").groupBy')),
        APPLY.but(df=APPLY.df.replace("s.groupBy", 's.filter("x > 4").groupBy')),
        "python",
        opaque=True,
        providers=_ROCKS,
    ),
    Case(
        "apws_refactor",
        "the same logic in other words",
        APPLY,
        _apply("int(frame.x.sum()) + new"),
        "python",
        opaque=True,
        providers=_ROCKS,
    ),
    Case(
        "apws_comment",
        "a comment in the function",
        APPLY,
        _apply(lines="pass  # nothing else"),
        "none",
        providers=_ROCKS,
    ),
    Case(
        "apws_state_type",
        "state field long -> int",
        APPLY,
        _apply(state="n int"),
        "state-type",
        opaque=True,
        providers=("hdfs",),
    ),
    Case(
        "apws_state_field",
        "state n -> n,m",
        APPLY,
        _apply(state="n long, m long").but(top=_apply().top.replace("state.update((new,))", "state.update((new, 1))")),
        "state-type",
        opaque=True,
        providers=_ROCKS,
    ),
    Case(
        "apws_state_renamed", "state field n -> z", APPLY, _apply(state="z long"), "none", opaque=True, providers=_ROCKS
    ),
    Case("apws_key", "group key k -> k2", APPLY, _apply(key='"k2"'), "key", providers=("hdfs",)),
    Case(
        "apws_below",
        "x -> x*100 below",
        APPLY,
        APPLY.but(df=APPLY.df.replace("s.groupBy", 's.withColumn("x", F.col("x") * 100).groupBy', 1)),
        "below",
        providers=_ROCKS,
    ),
    Case(
        "apws_above",
        "a column computed above",
        APPLY,
        APPLY.but(df=f'{APPLY.df}.withColumn("d", F.col("s") * 2)'),
        "none",
        providers=_ROCKS,
    ),
    _tws("tws_same", "control: unchanged", KEEP, "none", opaque=False),
    _tws("tws_logic", "logic sum -> max", _transform("max(n, row.x)")),
    _tws(
        "tws_var_added",
        "state variable added",
        _transform(
            more='\n        self.seen = handle.getValueState("seen", "b boolean")',
            store="self.kept.update((n,)); self.seen.update((True,))",
        ),
    ),
    _tws("tws_var_renamed", "state variable renamed cnt -> total", _transform(name="total")),
    _tws("tws_field_added_unsafe", "value state n -> n,m, unsaferow", _transform(**_TWO_FIELDS), "state-type"),
    _tws("tws_field_renamed_unsafe", "value state field n -> z, unsaferow", _transform(schema="z long")),
    _tws("tws_field_added_avro", "value state n -> n,m, avro", _transform(**_TWO_FIELDS), avro=True),
    _tws("tws_field_removed_avro", "value state n,m -> n, avro", KEEP, old=_transform(**_TWO_FIELDS), avro=True),
    _tws("tws_narrow_avro", "value field long -> int, avro", _transform(schema="n int"), "state-type", avro=True),
    _tws("tws_timemode", "timeMode None -> ProcessingTime", _transform(time="ProcessingTime"), "time-mode"),
    _tws("tws_key", "grouping key k -> k2", _transform(key='"k2"'), "key", opaque=False),
    _tws(
        "tws_value_to_list",
        "ValueState -> ListState",
        _transform(
            kind="List",
            load="n = sum(each[0] for each in self.kept.get())",
            step="row.x",
            store="self.kept.appendValue((n,))",
        ),
        "state-type",
    ),
    _tws(
        "tws_encoding_avro_to_unsafe",
        "encodingFormat avro -> unsaferow",
        KEEP,
        "none",
        opaque=False,
        avro=True,
        candidate_conf={f"{STATE_STORE}encodingFormat": "unsaferow"},
    ),
    _tws(
        "tws_comment",
        "a docstring added to the processor",
        KEEP.but(
            top=KEEP.top.replace(
                "class Keep(StatefulProcessor):", 'class Keep(StatefulProcessor):\n    """Keeps a sum."""'
            )
        ),
        "none",
        opaque=False,
    ),
)
