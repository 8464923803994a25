"""Tests the limits of a request's values, which are checked before anything is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput
from streamkeeper.model.coding import to_json
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.requests.request_limits import check_length, check_request

USUAL = DeployRequest(job="orders", params={"share": 0.5, "name": "größe"}, conf={"spark.ui.enabled": "false"})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"approve_s": float("nan")}, "approve_s=nan is not a deadline"),
        ({"drain_s": float("inf")}, "drain_s=inf is not a deadline"),
        ({"catch_up_s": 1e300}, r"catch_up_s=1e\+300 is not a deadline"),
        ({"drain_s": -1.0}, "drain_s=-1 is not a deadline"),
        ({"most_missing": float("nan")}, "most_missing=nan is not a share"),
        ({"most_differing": 2.0}, "most_differing=2 is not a share"),
        ({"probation_batches": -1}, "probation_batches=-1 is below 0"),
        ({"params": {"share": float("nan")}}, "param share is nan, which JSON cannot store"),
        ({"params": {"share": 2**63}}, "param share is 9223372036854775808, beyond 64 bits"),
        ({"params": {"name": "\ud800"}}, r"name is not Unicode: '\\ud800'"),
        ({"params": {"\udcff": 1}}, "name is not Unicode"),
        ({"reason": "\udcff"}, "reason is not Unicode"),
        ({"params": {"name": "x" * 2**20}}, "more than 1,048,576 .*into a file"),
    ],
    ids=str,
)
def test_a_request_value_that_cannot_be_stored_is_refused(fields: dict[str, Any], told: str) -> None:
    """A request with a value that cannot be stored, such as NaN, a number beyond 64 bits, text that is not Unicode or
    too much text, is refused with the field's name.
    """
    with pytest.raises(InvalidInput, match=told):
        check_request(replace(USUAL, **fields))


def test_a_valid_request_passes_the_check() -> None:
    """A valid request passes the same check, so the refusals are due to the changed fields."""
    check_request(USUAL)


@pytest.mark.parametrize("reason", ["because", "why not", "x" * 1000, "größe", ""], ids=len)
def test_a_reason_within_its_limits_is_accepted(reason: str) -> None:
    """A reason of 5 to 1,000 characters, counted in characters and not in bytes, is accepted, and so is an empty one if
    none is required.
    """
    check_length("reason", reason)


@pytest.mark.parametrize(
    ("reason", "told"),
    [("", "0"), ("why", "3"), ("x" * 1001, "1,001"), ("x" * 2**20, "1,048,576")],
    ids=["none", "short", "long", "a megabyte"],
)
def test_a_reason_beyond_its_bounds_is_refused(reason: str, told: str) -> None:
    """A required reason that is too short or too long is refused in one line with its length and the limits, without
    repeating it.
    """
    with pytest.raises(InvalidInput, match=rf"^reason has {told} characters \(write 5 to 1,000 characters\)$"):
        check_length("reason", reason, required=True)


def test_a_request_without_a_person_may_have_a_longer_reason() -> None:
    """A request without a person may have a longer reason, so that a driver's long error does not prevent its
    restart.
    """
    check_request(replace(USUAL, reason="x" * 5000))


def test_text_that_is_not_unicode_is_refused_when_encoded() -> None:
    """Text that is not Unicode, such as a reason typed in a different encoding, is refused when it is encoded for
    storage.
    """
    with pytest.raises(InvalidInput, match="is not Unicode"):
        to_json({"reason": "caf\udce9"})
