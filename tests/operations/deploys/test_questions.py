"""The assessment and the approval question as text for people, in Airflow and elsewhere."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import Assessed, ReleaseRegistered
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys import questions
from streamkeeper.operations.deploys.questions import compose_question, render_assessment, render_question
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import put_object
from streamkeeper.stores.local import LocalStore
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask, asked


def test_the_rendered_assessment_shows_verdict_finding_and_sentence(tmp_path: Path) -> None:
    """The rendered assessment shows the stored verdict, its finding and the operation's sentence."""
    finding = Finding(rule="grouping-keys-changed", severity=Severity.BREAKING, where="totals", evidence="a -> b")
    query = QueryAssessment(verdict=Verdict.SWITCH, findings=(finding,))
    assessment = Assessment(verdict=Verdict.SWITCH, queries={"totals": query})
    store = LocalStore(tmp_path)
    operation = OperationState(
        operation="op",
        request=DeployRequest(job="sales_totals"),
        steps=(),
        started=1,
        verdict_sentence="SWITCH: totals: grouping-keys-changed",
        report=put_object(store, "sales_totals", "reports", to_json(assessment), ".json"),
    )
    text = render_assessment(store, "sales_totals", operation)
    assert text.startswith("## SWITCH\n\ntotals: grouping-keys-changed\n")
    assert "| `grouping-keys-changed` |" in text


OPERATION = "op-asks"
LAMBDA = "<lambda> of <img src=x onerror=alert(1)> [x](javascript:1) `code` **bold**"


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def declined(job: Registered) -> str:
    """Return what the question states about the job after a decline."""
    return re.search(r"counts as declined; (.+?)\. May answer", question(job))[1]  # type: ignore[index]


@pytest.mark.parametrize(
    ("life", "state", "told"),
    [
        (Life.ALIVE, DriverState.SERVING, "r0001 keeps running"),
        (Life.DEAD, DriverState.FAILED, "r0001 stays the current release, and no driver is running now: boom"),
        (Life.UNKNOWN, DriverState.SERVING, "r0001 stays the current release, and its driver is unknown"),
        (Life.ALIVE, DriverState.FAILED, "r0001 stays the current release, and its driver is starting: boom"),
    ],
)
def test_the_question_states_that_the_old_release_runs_only_if_its_driver_runs(
    job: Registered, life: Life, state: DriverState, told: str
) -> None:
    """The question states that the old release keeps running only if its driver runs; for a dead, unknown or starting
    driver it states that. Negative control: with a running driver the release keeps running.
    """
    ask(job, OPERATION)
    job.report(7)
    control = Control(job.installation.store, JOB, "op-candidate")
    status = control.read_status()
    assert status is not None
    serves = state is DriverState.SERVING
    queries = {name: replace(query, triggers=3) for name, query in status.queries.items()}
    control.write_status(replace(status, state=state, error="" if serves else "boom", queries=queries))
    job.runner.life = life
    assert declined(job) == told


def give_code(job: Registered, release: str, text: str, **params: str) -> None:
    """Register the release with this code and these params."""
    root = Path(job.installation.settings.jobs)
    root.mkdir(exist_ok=True)
    (root / f"{JOB}.py").write_text(text)
    bundle = build_bundle(root, JOB)
    put_object(job.installation.store, JOB, "bundles", bundle.data, ".zip")
    before = job.installation.journal(JOB, "test").state().releases[release]
    content = replace(before.content, bundle=bundle.sha256, entry=bundle.entry, params=params)
    job.record(ReleaseRegistered(release=replace(before, content=content)))


def question(job: Registered, *, whole: bool = False) -> str:
    return render_question(
        job.installation, job.installation.journal(JOB, "test").state(), asked(job, OPERATION), whole=whole
    )


def shown(text: str) -> tuple[str, set[str]]:
    """Return the text that an Airflow page shows, and the types of its Markdown tokens."""
    found = list(MarkdownIt("commonmark").enable("table").parse(text))
    parts = [child for token in found for child in (token.children or [token])]
    return "".join(part.content for part in parts), {part.type for part in parts}


def test_the_question_shows_the_code_that_differs(job: Registered) -> None:
    """The question shows the changed lines of code and the changed params with masked secrets, but not the plan; the
    notice lists what differs and the deadline.
    """
    ask(job, OPERATION)
    give_code(job, "r0001", "RATE = 1\n", password="hunter2hunter2")
    give_code(job, "r0002", "RATE = 2\n", password="hunter3hunter3")
    text = question(job)
    for words in ("### Code differences", "#### file sales.py", "-RATE = 1", "+RATE = 2", "password"):
        assert words in text
    assert "hunter" not in text
    assert "plan" not in text.partition("### Code differences")[2]
    message = compose_question(
        job.installation,
        job.installation.journal(JOB, "test").state(),
        asked(job, OPERATION),
        until=datetime(2026, 11, 24, tzinfo=UTC),
    )
    assert "Code differences: params, file sales.py." in message.text
    assert "2026-11-24 00:00 UTC" in message.text


def test_a_code_difference_too_long_for_a_page_is_shortened(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code difference that is too long for a page is shortened, with the number of omitted lines and the command that
    shows all of it.
    """
    monkeypatch.setattr(questions, "MOST_LINES", 10)
    ask(job, OPERATION)
    give_code(job, "r0001", "A = 1\n")
    give_code(job, "r0002", "".join(f"X{number} = 1\n" for number in range(100)))
    assert re.search(rf"for 9\d more lines, run \\`streamkeeper question {JOB} {OPERATION}\\`", question(job))
    assert "+X99 = 1" not in question(job)
    assert "+X99 = 1" in question(job, whole=True)


def test_a_missing_code_bundle_is_stated_in_the_question(job: Registered) -> None:
    """A question whose code bundle is missing states that."""
    ask(job, OPERATION)
    assert "zip is missing" in question(job)


def test_quoted_markup_is_rendered_as_text_on_the_page(job: Registered) -> None:
    """Markup such as ``<lambda>`` in a finding, a sentence, a reason or code becomes neither HTML nor a link, and none
    of its text is lost.
    """
    finding = Finding(
        rule="code-in-state-changed", severity=Severity.OPAQUE, where=LAMBDA, evidence=LAMBDA, hint=LAMBDA
    )
    judged = QueryAssessment(verdict=Verdict.BACKUP, findings=(finding,))
    report = to_json(Assessment(verdict=Verdict.BACKUP, queries={QUERY: judged}))
    ask(job, OPERATION, requested_by=LAMBDA)
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", opaque=True, no_way_back=LAMBDA)
    job.record(
        Assessed(
            operation=OPERATION,
            verdict=Verdict.BACKUP,
            reverse=Verdict.BACKUP,
            sentence=LAMBDA,
            report=put_object(job.installation.store, JOB, "reports", report, ".json"),
            transitions={QUERY: way},
        )
    )
    give_code(job, "r0001", "")
    give_code(job, "r0002", f"# {LAMBDA}\n# ```\n")
    told, kinds = shown(question(job))
    assert told.count(LAMBDA) == 7
    assert not kinds & {"html_inline", "html_block", "link_open", "image"}


def test_unescaped_html_is_found_by_the_page_reader() -> None:
    """Negative control: text that is not escaped is found as inline HTML by the helper that reads the page."""
    told, kinds = shown(f"- {LAMBDA}")
    assert {"html_inline"} <= kinds
    assert LAMBDA not in told
