"""Generates the page about the DAGs: their schedules, and the fields of their forms."""

from __future__ import annotations

import ast
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.places import ROOT
from harness.reference.markdown import code, page, prose, table
from streamkeeper.model.markdown_text import anchor

DAGS = ROOT / "dags"
_NO_JOBS = Path("/nonexistent")
_INTRODUCTION = """
Each DAG is a form in Airflow (*Trigger*), a dialog of the page *Streaming*, and a REST call
(`POST /api/v2/dags/DAG_ID/dagRuns` with the fields in `conf`). A field that a form does not have is refused. Fields
with a default may be left out. Commands have the same options under [names of their own](cli.md).
"""


def render_forms() -> str:
    """Return the text of docs/reference/forms.md. This imports Airflow, with a temporary folder as AIRFLOW_HOME unless
    it is set.
    """
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("AIRFLOW_HOME", home)
        forms = {dag: form(_NO_JOBS) for dag, form in _forms().items()}
    files = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DAGS.glob("streaming_*.py"))}
    overview = table(
        ("DAG", "in Airflow's list", "schedule", "what it does"),
        (
            (f"[{code(dag)}](#{anchor(dag)})", f"*{_shown(text)}*", _schedule(text), _summary(text))
            for dag, text in files.items()
        ),
    )
    return page("DAGs and forms", _INTRODUCTION, overview, *(_section(dag, forms[dag]) for dag in files))


def _forms() -> Mapping[str, Callable[[Path], Mapping[str, Any]]]:
    """Return the function that makes the form of each DAG, by the DAG's id."""
    from streamkeeper.orchestration import form, snapshot_forms
    from streamkeeper.orchestration.watch_task import watch_form

    return {
        "streaming_backup": snapshot_forms.backup_form,
        "streaming_deploy": form.deploy_form,
        "streaming_drill": snapshot_forms.drill_form,
        "streaming_prune": snapshot_forms.prune_form,
        "streaming_recover": form.recover_form,
        "streaming_rollback": form.rollback_form,
        "streaming_start": form.start_form,
        "streaming_state_dead": form.state_dead_form,
        "streaming_stop": form.stop_form,
        "streaming_watch": watch_form,
    }


def _section(dag: str, form: Mapping[str, Any]) -> str:
    rows = ((code(name), _title(each), _type(each.schema), _default(each), _text(each)) for name, each in form.items())
    return f"## {dag}\n\n{table(('field', 'title', 'type', 'default', 'meaning'), rows)}"


def _title(param: Any) -> str:
    return prose(str(param.schema.get("title", "")))


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(code(str(each)) for each in schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(each for each in kinds if each != "null")


def _default(param: Any) -> str:
    value = param.value
    if type(value).__name__ == "ArgNotSet" or str(value) == "NOTSET":
        return "required"
    if value is None or value in ("", {}, []):
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(f"{value:g}") if isinstance(value, float) else code(str(value))


def _text(param: Any) -> str:
    schema = param.schema
    text = prose(schema.get("description_md") or param.description or schema.get("description") or "")
    choices = schema.get("values_display", {})
    return text or "; ".join(prose(each) for each in choices.values())


def _shown(text: str) -> str:
    found = re.search(r'dag_display_name="([^"]+)"', text)
    return found[1] if found else ""


def _schedule(text: str) -> str:
    found = re.search(r'read_schedule\("(\w+)", "([^"]+)"\)', text)
    return f"{code(found[2])} (`{found[1]}`)" if found else "by hand"


def _summary(text: str) -> str:
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    return prose(" ".join(first.split()).removesuffix("."))
