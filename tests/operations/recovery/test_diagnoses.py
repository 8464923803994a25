"""A diagnosis rendered as a page: quoted text stays text."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from streamkeeper.model.requests.diagnosis import Diagnosis, Option, Problem, RecoveryAction
from streamkeeper.operations.recovery import diagnoses
from streamkeeper.operations.recovery.diagnoses import render_diagnosis

QUOTED = "<lambda> at <b>x</b>, a_b_c and *p*"
HTML = {"html_inline", "html_block"}


def shown() -> tuple[str, set[str]]:
    """Return the text that an Airflow page shows of a diagnosis with quoted text, and the types of its Markdown
    tokens.
    """
    options = (
        Option(action=RecoveryAction.RESTART, why_not=QUOTED),
        Option(action=RecoveryAction.RESTORE, does=QUOTED, stands_on=(QUOTED,)),
    )
    found = Diagnosis(
        job="sales", cause=Problem.DRIVER_KILLED, sentence=QUOTED, evidence=(QUOTED,), advice=QUOTED, heading="",
        options=options,
    )  # fmt: skip
    tokens = MarkdownIt("commonmark").parse(render_diagnosis(found))
    parts = [child for token in tokens for child in (token.children or [token])]
    return "".join(part.content for part in parts), {part.type for part in parts}


def test_quoted_text_in_a_diagnosis_is_not_rendered_as_html() -> None:
    """Quoted text in a diagnosis, such as ``<lambda>`` or a path with underscores, is shown unchanged and not rendered
    as HTML.
    """
    told, kinds = shown()
    assert told.count(QUOTED) == 6
    assert not kinds & HTML


def test_without_escaping_it_would_be_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without escaping, the quoted text becomes HTML and disappears from the page."""
    monkeypatch.setattr(diagnoses, "escaped", str)
    told, kinds = shown()
    assert kinds & HTML
    assert QUOTED not in told
