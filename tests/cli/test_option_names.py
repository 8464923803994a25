"""Tests that errors on the command line name options as they are typed."""

from __future__ import annotations

import pytest

from streamkeeper.cli.option_names import as_typed, spelled
from streamkeeper.errors import InvalidInput, OperationOpen, StreamkeeperError


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        (
            "trigger again with on_open=continue or on_open=abort",
            "trigger again with --on-open continue or --on-open abort",
        ),
        ("accept_output_loss, drain_s", "--accept-output-loss, --drain-s"),
        ("streamkeeper rollback sales --accept-loss", "streamkeeper rollback sales --accept-loss"),
        ("params, reason, compare", "params, reason, compare"),
        ("my_drain_s, drain_s_2, x-drain_s", "my_drain_s, drain_s_2, x-drain_s"),
    ],
)
def test_a_field_of_a_request_is_spelled_as_its_option(text: str, typed: str) -> None:
    """Field names with an underscore are replaced by their options when they are whole words; ordinary words such as
    ``reason`` and longer names stay unchanged.
    """
    assert spelled(text) == typed


def test_an_open_operation_names_commands_that_take_the_option() -> None:
    """The hint for an open operation names whole ``deploy`` commands, because ``stop`` and ``start`` have no option
    ``--on-open``.
    """
    typed = as_typed(OperationOpen("sales", "op-1"))
    assert typed.message == "job sales has an open operation op-1"
    assert typed.hint == (
        "to continue that operation, run `streamkeeper deploy sales --on-open continue`."
        " To end it and then deploy, run `streamkeeper deploy sales --on-open abort`"
    )


def test_an_error_without_field_names_is_returned_unchanged() -> None:
    """An error whose text needs no change is returned as the same object; one that needs a change gets the new text and
    hint.
    """
    error = InvalidInput("no candidate is named", hint="--candidate FILE:NAME")
    assert as_typed(error) is error
    changed = as_typed(InvalidInput("drain_s is 0", hint="on_open=abort"))
    assert (type(changed), str(changed)) == (StreamkeeperError, "--drain-s is 0 (--on-open abort)")
