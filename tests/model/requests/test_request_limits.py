"""What a request may hold, and what is refused before anything of it is kept."""

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
def test_what_cannot_be_kept_as_it_was_given_is_refused(fields: dict[str, Any], told: str) -> None:
    """Numbers that are none, texts that no file can hold, and too much of them, by the field's name."""
    with pytest.raises(InvalidInput, match=told):
        check_request(replace(USUAL, **fields))


def test_a_usual_request_is_taken() -> None:
    """The refusals above are for their own fields."""
    check_request(USUAL)


@pytest.mark.parametrize("reason", ["because", "why not", "x" * 1000, "größe", ""], ids=len)
def test_a_reason_between_its_bounds_is_taken(reason: str) -> None:
    """In characters, not bytes; and so is none, where none has to be given."""
    check_length("reason", reason)


@pytest.mark.parametrize(
    ("reason", "told"),
    [("", "0"), ("why", "3"), ("x" * 1001, "1,001"), ("x" * 2**20, "1,048,576")],
    ids=["none", "short", "long", "a megabyte"],
)
def test_a_reason_beyond_its_bounds_is_refused(reason: str, told: str) -> None:
    """In one line with how long it is and how long it may be, and without repeating it."""
    with pytest.raises(InvalidInput, match=rf"^reason has {told} characters \(write 5 to 1,000 characters\)$"):
        check_length("reason", reason, required=True)


def test_what_is_said_without_a_person_may_be_longer() -> None:
    """A driver's error in the reason of its restart must not keep it from being restarted."""
    check_request(replace(USUAL, reason="x" * 5000))


def test_text_that_is_not_unicode_is_refused_by_whatever_stores_it() -> None:
    """A reason typed in another encoding is one clear line for every command that keeps it."""
    with pytest.raises(InvalidInput, match="is not Unicode"):
        to_json({"reason": "caf\udce9"})
