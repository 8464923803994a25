"""Tests the parts of a page whose data cannot be read."""

from __future__ import annotations

import pytest

from streamkeeper.errors import KeyMissing, RegistryDamaged
from streamkeeper.model.manifests.release import Release, ReleaseContent
from streamkeeper.operations.jobs.overview_facts import Fact
from streamkeeper.pages.parts import Mask, Part, mask_of, read_part
from tests.operations.registered_job import ENVIRONMENT


def mask(secret: str) -> Mask:
    """Return the mask of a release that has a literal secret in place of a reference."""
    content = ReleaseContent(
        bundle="", bundle_bytes=0, entry="", params={"password": secret}, conf={}, environment=ENVIRONMENT,
        state_format="",
    )  # fmt: skip
    return mask_of([Release(job="sales", number=1, content=content)])


def raising(error: Exception) -> Part[object]:
    def read() -> object:
        raise error

    return read_part("its log", read, mask("hunter2hunter2"))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RegistryDamaged("x is damaged", hint="mend it"), "its log cannot be read: x is damaged (mend it)"),
        (KeyMissing("a/b"), "its log cannot be read: a/b is missing"),
        (PermissionError(13, "Permission denied"), "its log cannot be read: [Errno 13] Permission denied"),
        (ValueError("at hunter2hunter2\u202e"), "its log cannot be read: at ***\\u202e"),
    ],
)
def test_unreadable_data_is_reported_in_one_sentence_without_secrets(error: Exception, told: str) -> None:
    """Data that cannot be read is reported in one sentence with the cause, without secrets and control characters."""
    assert raising(error) == Part(missing=told)


def test_an_unexpected_programming_error_is_raised() -> None:
    """An unexpected programming error is raised instead of being reported as unreadable data."""
    with pytest.raises(AttributeError):
        raising(AttributeError("x"))


def test_secrets_are_masked_in_values_but_not_in_names() -> None:
    """Secrets are masked in values of every shape, but not in names, which are part of addresses."""
    value = (Fact(name="totals", text="by totals\x1b", operation="totals"), ("totals",))
    found = read_part("it", lambda: value, mask("totals"))
    assert found.value == (Fact(name="totals", text="by ***\\x1b", operation="totals"), ("***",))
