"""Property tests of redaction: whatever the secret and its position, no part of it remains in a text, and every stored
value stays readable.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamkeeper.compatibility.assess import assess_evidence
from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.evidence import Evidence, QueryEvidence
from streamkeeper.model.manifests.manifest import FORMAT, Manifest, Watermark
from streamkeeper.model.protocol.check_messages import CheckAnswer
from streamkeeper.model.protocol.drill_messages import DrillAnswer, ExportAnswer
from streamkeeper.model.redaction import SHORTEST, redact, redact_value, secret_forms
from tests.model.test_yesterday import YESTERDAY
from tests.properties.values import values

QUIET = settings(max_examples=200, deadline=None)
MANIFEST = msgspec.structs.replace(
    from_json((YESTERDAY / "manifest.json").read_bytes(), Manifest, where="manifest"),
    delays=(Watermark(column="at", delay_ms=1200000),),
)


def words_of(value: Any) -> set[str]:
    """Return every key, text and number of a decoded JSON value."""
    match value:
        case dict():
            return set(value) | {each for inner in value.values() for each in words_of(inner)}
        case list():
            return {each for inner in value for each in words_of(inner)}
        case _:
            return {str(value)}


# What secrets are like that meet a manifest: its own words, JSON's own characters, and anything at all.
WORDS = sorted({part for each in words_of(json.loads(to_json(MANIFEST))) for part in (each, *each.split()) if part})
SECRETS = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(st.sampled_from(WORDS), st.text('{}[]":,\\\\n0123456789*eE+-. tfn', min_size=1), st.text(min_size=1)),
    min_size=1,
)


def shape_of(value: Any) -> Any:
    """Return the value with its keys, numbers and types, but without its texts."""
    match value:
        case dict():
            return {key: shape_of(each) for key, each in value.items()}
        case list():
            return [shape_of(each) for each in value]
        case str():
            return "text"
        case _:
            return value


@QUIET
@given(secrets=SECRETS)
@example(secrets={"a": "query"})
@example(secrets={"a": "2"})
@example(secrets={"a": '"'})
@example(secrets={"a": "table", "b": "4.2.0", "c": "file"})
def test_a_redacted_manifest_can_be_decoded_and_compares_as_unchanged(secrets: dict[str, str]) -> None:
    """A redacted manifest can be decoded, keeps its keys and numbers, and compares with itself as unchanged."""
    shown = redact_value(MANIFEST, secrets)
    data = to_json(shown)
    assert from_json(data, Manifest, where="masked") == shown
    before, after = (json.loads(each) for each in (to_json(MANIFEST), data))
    assert shape_of(after) == shape_of(before)
    for name in ("query", "spark_version", "output_mode", "trigger", "functions"):
        assert after[name] == before[name]
    judged = QueryEvidence(deployed=shown, candidate=shown)
    assert assess_evidence(Evidence(against="r0001", queries={shown.query: judged})).verdict == 0


@pytest.mark.parametrize("secret", ["query", "2", '"', "{", "sink"])
def test_masking_the_json_text_of_a_manifest_makes_it_unreadable(secret: str) -> None:
    """Negative control: masking a secret in the JSON text of a manifest makes it unreadable, while redacting the value
    keeps it readable.
    """
    data = to_json(MANIFEST).decode().replace(secret, "***").encode()
    with pytest.raises(RegistryDamaged):
        from_json(data, Manifest, where="masked", newest_format=FORMAT)
    assert from_json(to_json(redact_value(MANIFEST, {"s": secret})), Manifest, where="masked")


@settings(QUIET, max_examples=60)
@given(data=st.data(), secrets=SECRETS, kind=st.sampled_from([CheckAnswer, Evidence, DrillAnswer, ExportAnswer]))
def test_every_answer_of_a_driver_process_can_be_decoded_after_redaction(
    data: st.DataObject, secrets: dict[str, str], kind: Any
) -> None:
    """Every kind of answer of a driver process can be decoded after redaction, and redacting it without secrets changes
    nothing.
    """
    value = data.draw(values(kind))
    shown = redact_value(value, secrets)
    assert from_json(to_json(shown), kind, where="answer") == shown
    assert redact_value(shown, {}) is shown


@QUIET
@given(
    before=st.text(),
    secret=st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=SHORTEST),
    after=st.text(),
)
def test_a_secret_is_masked_anywhere_and_in_every_encoded_form(before: str, secret: str, after: str) -> None:
    """A secret is masked anywhere in a text or in a manifest's plan, in each of its encoded forms."""
    if not secret.strip():
        return
    secrets = {"s": secret}
    for form in secret_forms(secrets):
        if len(form) >= SHORTEST:
            assert form not in redact(before.replace("*", "") + form + after.replace("*", ""), secrets)
    manifest = msgspec.structs.replace(MANIFEST, plan=f"{before}{secret}{after}".replace("*", ""))
    assert secret not in redact_value(manifest, secrets).plan


@QUIET
@given(secret=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=SHORTEST - 1))
@pytest.mark.parametrize(
    "around", ["password={}", "name:{}@hostname", "'{}'", '["{}",', "{}", "with {}.", "with {}, then"]
)
def test_a_short_secret_is_masked_as_a_value(around: str, secret: str) -> None:
    """A secret shorter than ``SHORTEST`` is masked wherever the text contains it as a value."""
    assert redact(around.format(secret), {"s": secret}) == around.format("***")
