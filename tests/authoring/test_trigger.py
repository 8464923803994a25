"""Triggers: intervals and availableNow are parsed; Spark's other kinds are refused by name."""

from __future__ import annotations

import pytest

from streamkeeper.authoring.definition import Trigger, parse_trigger
from streamkeeper.errors import InvalidInput, Unsupported


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("5 seconds", Trigger("5 seconds", 5.0)),
        ("1 minute", Trigger("1 minutes", 60.0)),
        ("250ms", Trigger("250 milliseconds", 0.25)),
        ("0 seconds", Trigger("0 seconds", 0.0)),
        ("availableNow", Trigger("availableNow", None)),
        ("available now", Trigger("availableNow", None)),
    ],
)
def test_trigger_spellings_are_parsed_to_one_normalized_trigger(text: str, trigger: Trigger) -> None:
    """Different spellings of an interval or of availableNow are parsed to one normalized trigger."""
    assert parse_trigger(text) == trigger


@pytest.mark.parametrize("text", ["once", "continuous 1 second", "continuous", "realTime", "real-time 5 minutes"])
def test_unsupported_triggers_are_refused_by_name(text: str) -> None:
    """Triggers that cannot be drained or fenced, such as once and continuous, are refused as unsupported."""
    with pytest.raises(Unsupported, match="not supported"):
        parse_trigger(text)


@pytest.mark.parametrize("text", ["", "soon", "5", "5 parsecs", 5, None])
def test_unknown_trigger_text_is_refused_with_the_supported_forms(text: object) -> None:
    """Any other text is refused with a message that names the supported forms."""
    with pytest.raises(InvalidInput, match="availableNow"):
        parse_trigger(text)
