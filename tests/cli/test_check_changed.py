"""Tests of ``check --changed`` and of its comment on a pull request, as a pipeline runs it in a checkout of a
repository.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from streamkeeper.cli.change_pages import (
    MARKER,
    MOST_CHARACTERS,
    CheckedJob,
    changes_json,
    render_changes,
    render_comment,
)
from streamkeeper.cli.main import app
from streamkeeper.compatibility.differences import Difference
from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.protocol.check_messages import CheckAnswer
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    DesiredChanged,
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseDescribed,
    ReleasePromoted,
    Role,
)
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.changed_jobs import ChangeKind, JobChange, find_changed_jobs
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.journal import Journal

JOB = """
import rates
from streamkeeper import Param, streaming_job

@streaming_job(name="{name}", params={{"input": Param(str)}})
def job(spark, params):
    yield from ()
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository with two jobs and a helper that both import; the code of its first commit is the current
    release of both jobs.
    """
    root = tmp_path / "repository"
    (root / "jobs").mkdir(parents=True)
    for name in ("orders", "refunds"):
        (root / "jobs" / f"{name}.py").write_text(JOB.format(name=name))
    (root / "jobs" / "rates.py").write_text("RATE = 1\n")
    (root / "jobs" / "alone.py").write_text("X = 1\n")
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root)
    monkeypatch.setenv("STREAMKEEPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STREAMKEEPER_JOBS", str(root / "jobs"))
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("orders", "refunds"):
        serve(name)
    git(root, "switch", "--quiet", "--create", "change")
    return root


def git(root: Path, *words: str) -> None:
    command = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
    subprocess.run(command, check=True, timeout=60)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change jobs")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def site() -> Installation:
    return Installation.from_environment(os.environ, read_only=True)


def serve(job: str) -> None:
    """Push the job's present code, and record in the journal that this release was deployed and promoted."""
    pushed = run("release", "push", job, "--params", '{"input": "/data"}')
    assert pushed.exit_code == 0, pushed.stderr
    journal = Journal(site().store, job, writer="test")
    for record in (
        ReleaseDescribed(release="r0001", manifests={}),
        OperationStarted(operation="op", request=DeployRequest(job=job), steps=()),
        InstancePlanned(operation="op", instance="op-candidate", release="r0001", role=Role.CANDIDATE),
        InstanceAppointed(operation="op", instance="op-candidate"),
        ReleasePromoted(operation="op", release="r0001", instance="op-candidate"),
        OperationFinished(operation="op", outcome=Outcome.SUCCEEDED, sentence="serves"),
    ):
        journal.append(lambda _, record=record: record)


def kinds() -> dict[str, str]:
    return {each.job: each.kind.value for each in find_changed_jobs(site())}


def test_a_commit_that_touches_no_job_reports_no_change_without_spark(checkout: Path, tmp_path: Path) -> None:
    """A commit that changes only a file that no job imports reports no changed job, in the output and in the comment,
    with exit code 0.
    """
    (checkout / "jobs" / "alone.py").write_text("X = 2\n")
    commit(checkout)
    found = run("check", "--changed", "--markdown", str(tmp_path / "comment.md"))
    assert found.exit_code == 0, found.stderr
    assert "no job's code differs from its current release" in found.stdout
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith(f"{MARKER}\n### Streamkeeper: no job's code differs")
    assert "**Unchanged**: `orders`, `refunds`." in comment


def test_a_changed_helper_changes_every_job_that_imports_it(checkout: Path) -> None:
    """A change in a helper marks every job that imports it as changed, even before the change is committed, because
    bundles are compared by their hash.
    """
    assert kinds() == {"orders": "same", "refunds": "same"}
    (checkout / "jobs" / "rates.py").write_text("RATE = 2\n")
    assert kinds() == {"orders": "changed", "refunds": "changed"}


def test_a_renamed_job_is_reported_as_a_first_deploy(checkout: Path) -> None:
    """A renamed job is reported as a first deploy, with a note that a renamed job counts as new; its old name is listed
    as running without a file.
    """
    git(checkout, "mv", "jobs/refunds.py", "jobs/returns.py")
    (checkout / "jobs" / "returns.py").write_text(JOB.format(name="returns"))
    commit(checkout)
    assert kinds() == {"orders": "same", "refunds": "no file", "returns": "first deploy"}
    found = run("check", "--changed")
    assert found.exit_code == 0, found.stderr
    assert "First deploys: returns." in found.stdout
    assert "A renamed job counts as new." in found.stdout
    assert "Running without a file here: refunds." in found.stdout


def test_a_stopped_job_whose_file_was_deleted_is_not_reported(checkout: Path) -> None:
    """A job that was stopped on purpose and whose file was deleted is not reported."""
    (checkout / "jobs" / "refunds.py").unlink()
    stop = DesiredChanged(serve=False, requested_by="ann", reason="gone")
    Journal(site().store, "refunds", writer="test").append(lambda _: stop)
    assert kinds() == {"orders": "same"}


@pytest.mark.parametrize("source", [b"def (:\n# streaming_job", b"# streaming_job\nx = '\xff'\n", b"streaming_job\0"])
def test_an_invalid_python_file_is_reported_and_other_jobs_are_still_checked(
    checkout: Path, tmp_path: Path, source: bytes
) -> None:
    """A job file that is not valid Python, of a deployed or of a new job, is reported with file and line and exit code
    2, and the other jobs are still checked.
    """
    for name in ("orders", "fresh"):
        (checkout / "jobs" / f"{name}.py").write_bytes(source)
    (checkout / "jobs" / "notes.py").write_bytes(b"def (:")
    commit(checkout)
    found = run("check", "--changed", "--markdown", str(tmp_path / "comment.md"), "--json")
    assert found.exit_code == 2
    jobs = json.loads(found.stdout)["jobs"]
    assert {job: each["change"] for job, each in jobs.items()} == {
        "fresh": "unknown", "orders": "unknown", "refunds": "same",
    }  # fmt: skip
    assert "orders.py:" in jobs["orders"]["error"]
    comment = (tmp_path / "comment.md").read_text()
    assert "### Streamkeeper: 2 of 2 changed jobs could not be checked" in comment
    assert "| `orders` | **not checked** | orders.py:" in comment


def test_a_job_file_with_a_declared_encoding_is_found(checkout: Path) -> None:
    """A job file in an encoding that its first line declares, such as latin-1, is found as a job."""
    text = "# -*- coding: latin-1 -*-\nNAME = 'Bücher'\n" + JOB.format(name="books")
    (checkout / "jobs" / "books.py").write_bytes(text.encode("latin-1"))
    assert kinds()["books"] == "first deploy"


def test_an_invalid_job_name_is_escaped_in_the_comment(checkout: Path, tmp_path: Path) -> None:
    """A job whose name is not allowed and contains Markdown and HTML characters is reported with these characters
    escaped, and produces no markup in the comment.
    """
    (checkout / "jobs" / "a`|<script>.py").write_text(JOB.format(name="a`|<script>"))
    found = run("check", "--changed", "--markdown", str(tmp_path / "comment.md"))
    assert found.exit_code == 2
    assert (
        "| `a'/<script>` | **not checked** | job name 'a\\`\\|\\<script>' is not allowed"
        in (tmp_path / "comment.md").read_text()
    )


def test_a_missing_secret_leaves_only_its_own_job_unchecked(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that is missing in the pipeline's environment leaves only its own job unchecked, and the message names
    the secret.
    """
    params = '{"input": "secret://env/NOT_THERE"}'
    assert run("release", "push", "orders", "--params", params).stdout == "r0002\n"
    promote = ReleasePromoted(operation="op", release="r0002", instance="op-candidate")
    described = ReleaseDescribed(release="r0002", manifests={})
    for record in (described, promote):
        Journal(site().store, "orders", writer="test").append(lambda _, record=record: record)
    (checkout / "jobs" / "orders.py").write_text(JOB.format(name="orders") + "# changed\n")
    found = run("check", "--changed")
    assert found.exit_code == 2
    assert "job orders: NOT CHECKED: secret://env/NOT_THERE" in found.stdout
    assert "Unchanged: refunds." in found.stdout


def test_on_a_machine_without_the_checkpoints_a_job_is_not_checked(checkout: Path) -> None:
    """On a machine without the checkpoint root a job is reported as not checked, because its checkpoint would otherwise
    be taken for a lost one.
    """
    version = CheckpointVersionCreated(
        query="totals", version="v0001", release="r0001", origin="fresh", state_format="x", root="/nowhere/checkpoints"
    )
    Journal(site().store, "orders", writer="test").append(lambda _: version)
    (checkout / "jobs" / "orders.py").write_text(JOB.format(name="orders") + "# changed\n")
    found = run("check", "--changed")
    assert found.exit_code == 2
    assert "job orders: NOT CHECKED: this machine has no checkpoint root /nowhere/checkpoints" in found.stdout


FINDING = Finding(
    rule="aggregate-function-changed", severity=Severity.BREAKING, where="`x` ```", evidence="<script>@ann</script> | a"
)
SWITCH = CheckAnswer(
    assessment=Assessment(
        verdict=Verdict.SWITCH,
        queries={"totals": QueryAssessment(verdict=Verdict.SWITCH, findings=(FINDING,))},
    )
)
CHECKED = CheckedJob(
    change=JobChange(job="orders", kind=ChangeKind.CHANGED, release="r0001"),
    answer=SWITCH,
    transitions={"totals": ("rebuild", "rebuild in v0002, beside v0001", "reads 8 files again")},
)
BROKEN = CheckedJob(change=JobChange(job="refunds", kind=ChangeKind.UNKNOWN, error="refunds.py:1: no"))


def test_the_comment_shows_verdict_path_and_cost_of_each_job() -> None:
    """The comment shows the verdict, the path and the cost of each job, folds the findings, and escapes HTML and
    mentions.
    """
    comment = render_comment([CHECKED, BROKEN])
    assert "### Streamkeeper: 1 of 2 changed jobs could not be checked; SWITCH" in comment
    assert (
        "| `orders` | **SWITCH** | `totals`: rebuild in v0002, beside v0001 | `totals`: reads 8 files again |"
        in comment
    )
    assert "<details><summary>orders: findings, against r0001</summary>" in comment
    assert "`aggregate-function-changed`" in comment
    assert "\\<script>" in comment
    assert "@ann" not in comment


def test_a_job_without_a_possible_path_shows_the_reason() -> None:
    """A job without a possible path shows the reason in the place of the path."""
    comment = render_comment(
        [replace(CHECKED, transitions={}, refusal="query totals: no rebuild: its function output")]
    )
    assert "| **SWITCH** | none: query totals: no rebuild: its function output |" in comment
    assert "path: none: query totals" in render_changes(
        [replace(CHECKED, transitions={}, refusal="query totals: none")]
    )


def test_a_comment_stays_below_the_limit_and_names_what_it_leaves_out() -> None:
    """A difference that is too long is left out of the comment and named there; the findings are kept and the comment
    stays within its limit.
    """
    long = Difference(title="file orders.py", lines=tuple("+" + "x" * 300 for _ in range(400)))
    comment = render_comment([replace(CHECKED, differences=(long,))], differences=True)
    assert len(comment) < MOST_CHARACTERS + 1000
    assert "Too long for a comment: difference of `orders`." in comment
    assert "`aggregate-function-changed`" in comment


def test_a_comment_with_huge_errors_and_1000_jobs_stays_within_the_limit() -> None:
    """A comment with 1,000 checked jobs and three errors of 99,999 characters stays below GitHub's limit of 65,536;
    failed jobs come first, and a last row refers to the rest.
    """
    broken = [
        replace(BROKEN, change=replace(BROKEN.change, job=f"b{number}", error="x" * 99_999)) for number in range(3)
    ]
    checked = [replace(CHECKED, change=replace(CHECKED.change, job=f"a{number}")) for number in range(1_000)]
    comment = render_comment([*checked, *broken], differences=True)
    assert len(comment) < 65_536
    assert comment.index("`b2`") < comment.index("`a0`")
    assert "more | `streamkeeper check --changed` shows all" in comment


def test_an_error_of_a_job_s_own_shows_no_credentials() -> None:
    """An error that a job's code raised is shown in the comment without the password of a URL in it."""
    error = "orders.py:3: OSError: postgresql://ann:geheim99@db/x is away"
    found = render_comment([replace(BROKEN, change=replace(BROKEN.change, error=error))])
    assert "geheim99" not in found
    assert "OSError" in found


def test_a_difference_is_folded_into_the_comment() -> None:
    """The comment contains the difference of a job only when differences are requested, in a fence longer than any in
    its lines.
    """
    difference = Difference(title="file orders.py", lines=("--- r0001", "+++ candidate", "@@ -1 +1 @@", "-a", "+```"))
    assert "````diff\n--- r0001" in render_comment([replace(CHECKED, differences=(difference,))], differences=True)
    assert "diff\n" not in render_comment([replace(CHECKED, differences=(difference,))])


def test_json_has_what_the_comment_has() -> None:
    """The JSON output contains the verdict and the path of each job, for pipelines that write their own comment."""
    found = changes_json([CHECKED])["jobs"]
    assert isinstance(found, dict)
    assert found["orders"]["verdict"] == "SWITCH"
    assert found["orders"]["ways"]["totals"]["way"] == "rebuild"
