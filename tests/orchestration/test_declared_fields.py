"""Every field that the request declares is present in the command, the form, the task group's arguments and the
reference.
"""

from __future__ import annotations

import inspect
import re
from enum import Enum
from typing import Any

import msgspec
import pytest

from harness.places import ROOT
from harness.reference.markdown import cell, prose
from streamkeeper.model.requests.asked_fields import AskedField, Verb, asked_fields
from streamkeeper.model.requests.request import DeployRequest
from tests.orchestration.test_doors import form_of, options_of

pytestmark = pytest.mark.airflow
FIELDS = [
    pytest.param(verb, field, id=f"{verb.value}-{field.name}")
    for verb in Verb
    for field in asked_fields(DeployRequest, verb).values()
]


def plain(value: Any) -> Any:
    """Return a default in a common form: a choice as its word, and empty values as None."""
    value = value.value if isinstance(value, Enum) else value
    return None if value is msgspec.NODEFAULT or value in ("", (), [], {}) else value


def section(page: str, heading: str) -> str:
    """Return the part of a reference page under a heading."""
    text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def meaning(page: str, heading: str, name: str) -> str:
    """Return the last cell of the table row about a field or an option."""
    rows = [line for line in section(page, heading).splitlines() if re.match(rf"\| `{name}[` ]", line)]
    assert len(rows) == 1
    return rows[0].removesuffix(" |").rpartition("| ")[2]


@pytest.mark.parametrize(("verb", "field"), FIELDS)
def test_a_field_is_an_option_of_its_command(verb: Verb, field: AskedField) -> None:
    """Each field is an option of its command with the same default and meaning, and the reference contains that
    meaning.
    """
    option, text = options_of(verb.value)[field.name], field.help(verb).replace("`", "")
    assert option.help.startswith(text)
    if option.required:
        assert field.default is msgspec.NODEFAULT or verb in field.ask.required
    else:
        assert plain(option.default) == plain(field.default)
    name = field.ask.metavar if option.param_type_name == "argument" else option.opts[0]
    assert meaning("cli.md", verb.value, name).startswith(cell(prose(text)))


@pytest.mark.parametrize(("verb", "field"), FIELDS)
def test_a_field_is_in_the_form_of_its_dag(verb: Verb, field: AskedField) -> None:
    """Each field is in the form of its DAG with the same default and meaning, which the reference contains; only the
    reason is required more often.
    """
    shown, text = form_of(verb.value)[field.name], field.help(verb)
    assert (shown.description or shown.schema["description_md"]).startswith(text)
    assert shown.schema["title"] == field.ask.title
    if field.default is not msgspec.NODEFAULT and field.name != "reason":
        assert plain(shown.value) == plain(field.default)
    assert meaning("forms.md", f"streaming_{verb.value}", field.name).startswith(cell(prose(text)))


@pytest.mark.parametrize(("verb", "field"), [each for each in FIELDS if each.values[0] in (Verb.DEPLOY, Verb.ROLLBACK)])
def test_a_field_is_an_argument_of_its_task_group(verb: Verb, field: AskedField) -> None:
    """Each field is an argument of its task group with its meaning, and a group without it uses the default."""
    from airflow.sdk import DAG

    from streamkeeper.airflow_tasks import deploy_streaming_job, roll_back_streaming_job
    from streamkeeper.orchestration import task_arguments

    own = field.name in ("job", "reason")
    make, arguments = {
        Verb.DEPLOY: (deploy_streaming_job, task_arguments.DeployArguments),
        Verb.ROLLBACK: (roll_back_streaming_job, task_arguments.RollbackArguments),
    }[verb]
    if own:
        assert field.name in inspect.signature(make).parameters
        return
    assert field.name in arguments.__annotations__
    assert field.help(verb) in " ".join(inspect.getsource(arguments).split())
    with DAG("d", schedule=None) as dag:
        make("orders", reason="a test", group_id="group")
    bundle: Any = dag.get_task("group.bundle")
    assert plain(bundle.request[field.name]) == plain(field.default)


def test_arguments_are_the_fields_of_the_forms() -> None:
    """The arguments of a task group are exactly the fields of its form, including those that are not fields of the
    request.
    """
    from streamkeeper.orchestration import task_arguments

    for verb, arguments in (("deploy", "DeployArguments"), ("rollback", "RollbackArguments")):
        named = getattr(task_arguments, arguments).__annotations__
        assert {*named, "job", "reason"} == set(form_of(verb))
