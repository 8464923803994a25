"""Tests that a request's type declares the fields and limits that the forms and commands show and that are checked."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput
from streamkeeper.model.coding import to_json
from streamkeeper.model.requests.asked_fields import SHARE, Ask, AskedField, Verb, asked_fields
from streamkeeper.model.requests.diagnosis import Recovery, RecoveryAction
from streamkeeper.model.requests.request import Deployment, DeployRequest, RequestKind, Rollback, StartCurrent
from streamkeeper.model.requests.request_limits import check_request


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    by: str = ""
    name: Annotated[str, Ask(title="Name", help="", verbs=tuple(Verb))]
    tags: Annotated[dict[str, str], Ask(title="Tags", help="Any", help_for={Verb.STOP: "None"}, section="More")] = {}
    kept: Annotated[int, Meta(ge=0)] = 1
    last: Annotated[float, Ask(title="Last", help="", unit=SHARE, extra={"maximum": 0.5})] = 0.0


def test_fields_with_an_ask_are_listed_in_declaration_order() -> None:
    """Fields with an ``Ask`` are listed in the order of declaration with their type, default, limits and verb-specific
    help.
    """
    name, tags, last = asked_fields(Asked).values()
    assert (name.name, name.kind, name.default) == ("name", str, msgspec.NODEFAULT)
    assert (tags.name, tags.kind, tags.default) == ("tags", dict[str, str], {})
    assert (tags.help(Verb.DEPLOY), tags.help(Verb.STOP)) == ("Any", "None")
    assert (last.name, last.kind, last.schema) == ("last", float, {"minimum": 0, "maximum": 0.5})
    assert list(asked_fields(Asked, Verb.STOP)) == ["name"]


def test_requester_kind_and_inherited_fields_are_not_offered() -> None:
    """The fields for the requester, the kind and the inherited values are not offered in any form."""
    inherited = {"inherit_params", "inherit_conf", "inherited_from", "not_inherited"}
    kind = {"stored_rollback", "stored_start", "stored_recovery"}
    others = {"requested_by", *kind, *inherited}
    assert set(DeployRequest.__struct_fields__) - set(asked_fields(DeployRequest)) == others


def test_every_offered_field_has_a_help_text() -> None:
    """Every offered field has a help text, every choice has a display text, and verb-specific help is only given for
    verbs that offer the field.
    """
    fields = asked_fields(DeployRequest)
    assert [field.name for field in fields.values() if not field.ask.help] == []
    for field in fields.values():
        if isinstance(field.default, Enum):
            assert list(field.schema["values_display"]) == [each.value for each in type(field.default)]
    assert [field.name for field in fields.values() if not set(field.ask.help_for) <= set(field.ask.verbs)] == []


@pytest.mark.parametrize(
    "field",
    [each for each in asked_fields(DeployRequest).values() if isinstance(each.default, float)],
    ids=lambda field: field.name,
)
def test_declared_bounds_are_those_that_are_checked(field: AskedField) -> None:
    """The bounds in a form's schema are the same that the request check enforces."""
    least = field.schema.get("minimum", field.schema.get("exclusiveMinimum"))
    for good in (least + 0.5, field.schema["maximum"]):
        check_request(replace(DeployRequest(job="orders"), **{field.name: good}))
    for bad in (
        float("nan"),
        least - 0.5,
        field.schema["maximum"] + 0.5,
        *([least] if "exclusiveMinimum" in field.schema else []),
    ):
        with pytest.raises(InvalidInput, match=field.name):
            check_request(replace(DeployRequest(job="orders"), **{field.name: bad}))


def test_a_recorded_request_outside_the_bounds_stays_readable() -> None:
    """A recorded request with values outside today's bounds is still readable."""
    assert msgspec.convert({"job": "orders", "drain_s": 0.0, "most_missing": 2.0}, DeployRequest).drain_s == 0


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (Deployment(), {"rollback": False, "start": False, "recover": None}),
        (Rollback(), {"rollback": True, "start": False, "recover": None}),
        (StartCurrent(), {"rollback": False, "start": True, "recover": None}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_requests_kind_keeps_its_stored_keys(kind: RequestKind, stored: dict[str, Any]) -> None:
    """A request's kind is stored under exactly the keys of earlier versions and read from them."""
    keys = {"rollback", "start", "recover"}
    encoded = json.loads(to_json(DeployRequest(job="orders").of_kind(kind)))
    assert {key: value for key, value in encoded.items() if key in keys} == stored
    assert not {"kind", "stored_rollback", "stored_start", "stored_recovery"} & encoded.keys()
    assert msgspec.convert({"job": "orders", **stored}, DeployRequest).kind == kind


def test_a_recovery_is_stored_under_the_recover_key() -> None:
    """A recovery is stored under the ``recover`` key, and setting one kind replaces a previous one."""
    recovery = Recovery(action=RecoveryAction.RESTART, cause="driver-failed")
    request = DeployRequest(job="orders").of_kind(Rollback()).of_kind(recovery)
    encoded = json.loads(to_json(request))
    assert (encoded["rollback"], encoded["start"], encoded["recover"]["action"]) == (False, False, "restart")
    assert msgspec.convert(encoded, DeployRequest) == request
    assert (request.kind, request.recovery, request.of_kind(Deployment()).recovery) == (recovery, recovery, None)
