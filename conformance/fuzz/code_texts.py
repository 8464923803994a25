"""The Python code of a pipeline: functions of columns and of state, each in several equivalent wordings. Pure."""

from __future__ import annotations

from conformance.fuzz.layouts import VARIANTS, layout_files, layout_top
from conformance.fuzz.stages import Code, Keep

_FUNCTION = """
{decorator}def {name}(a, b):
    {doc}a = 0 if a is None else a
    b = 0 if b is None else b
    {assign}return {step}
"""
_CLOSURE = """
def {uid}_with(factor):
    def step(a, b):
        {doc}a = 0 if a is None else a
        b = 0 if b is None else b
        return {step}

    return step
"""
_PANDAS = """
@F.pandas_udf("int")
def {name}_of(a: pd.Series, b: pd.Series) -> pd.Series:
    {doc}a = a.fillna(0)
    b = b.fillna(0)
    return ({step}).astype("int32")
"""
_ROW = """
class Kept(StatefulProcessor):
    def init(self, handle):
        self.kept = handle.getValueState("{variable}", "total long, seen long")

    def handleInputRows(self, key, rows, timers):
        {doc}{total}, seen = self.kept.get() if self.kept.exists() else (0, 0)
        for row in rows:
            value = row.value or 0
            {total}, seen = {step}, seen + 1
        self.kept.update(({total}, seen))
        yield Row(key=key[0], total={total}, seen=seen)

    def close(self):
        pass
"""
_FRAME = """
def keep(key, frames, state):
    {doc}{total}, seen = state.get if state.exists else (0, 0)
    for frame in frames:
        for value in frame.value.fillna(0).astype("int64"):
            {total}, seen = {step}, seen + 1
    state.update((int({total}), int(seen)))
    yield pd.DataFrame({{"key": [key[0]], "total": [int({total})], "seen": [int(seen)]}})
"""
_DOC = '"""What a row adds."""\n{indent}'


def code_top(stage: Code) -> str:
    """Return the module-level lines for a column that is computed by code."""
    if stage.form in VARIANTS:
        return layout_top(stage)
    constant = f"{stage.uid.upper()}_FACTOR"
    match stage.form:
        case "helper":
            wrap = f'{stage.name}_of = F.udf({stage.uid}_step, "int")'
            return f"from {module_of(stage)} import {stage.uid}_step\n\n{wrap}\n"
        case "closure":
            text = _CLOSURE.format(uid=stage.uid, step=_step(stage, "factor"), doc=_doc(stage.wording, 8))
            return f'{text}\n\n{stage.name}_of = F.udf({stage.uid}_with({stage.constant}), "int")\n'
        case "pandas":
            text = _PANDAS.format(name=stage.name, step=_step(stage, constant), doc=_doc(stage.wording, 4))
            return f"import pandas as pd\n\n{constant} = {stage.constant}\n{text}"
        case _:
            return _plain(stage, constant, f"{stage.name}_of", '@F.udf("int")\n')


def code_files(stage: Code) -> tuple[tuple[str, str], ...]:
    """Return the modules beside the job file."""
    if stage.form in VARIANTS:
        return layout_files(stage)
    if stage.form != "helper":
        return ()
    return ((f"{module_of(stage)}.py", _plain(stage, "FACTOR", f"{stage.uid}_step")),)


def module_of(stage: Code) -> str:
    """Return the name of the stage's helper module."""
    return f"steps_{stage.uid}"


def keep_top(stage: Keep) -> str:
    """Return the module-level lines for state that is kept by code."""
    total = "running" if stage.wording == "renamed" else "total"
    step = stage.step.replace("total", total)
    doc = _doc(stage.wording, 8 if stage.form == "row" else 4)
    if stage.form == "row":
        head = "from pyspark.sql import Row\nfrom pyspark.sql.streaming import StatefulProcessor\n\n"
        return head + _ROW.format(variable=stage.variable, total=total, step=step, doc=doc)
    return "import pandas as pd\n\n" + _FRAME.format(total=total, step=step, doc=doc)


def _plain(stage: Code, constant: str, name: str, decorator: str = "") -> str:
    renamed = stage.wording == "renamed"
    text = _FUNCTION.format(
        name=name,
        decorator=decorator,
        doc=_doc(stage.wording, 4),
        assign=f"made = {_step(stage, constant)}\n    " if renamed else "",
        step="made" if renamed else _step(stage, constant),
    )
    if stage.wording == "typed":
        text = text.replace("(a, b):", "(a: int | None, b: int | None) -> int:")
    return f"{constant} = {stage.constant}\n\n{text}"


def _step(stage: Code, constant: str) -> str:
    return stage.step.replace("factor", constant)


def _doc(wording: str, indent: int) -> str:
    return _DOC.format(indent=" " * indent) if wording == "documented" else ""
