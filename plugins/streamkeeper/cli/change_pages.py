"""The report on all changed jobs as text, as JSON, or as a pull request comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from streamkeeper.compatibility.difference_markdown import render_differences
from streamkeeper.compatibility.differences import Difference
from streamkeeper.compatibility.report import render_markdown, render_text
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.markdown_text import escaped, visible
from streamkeeper.model.protocol.check_messages import CheckAnswer, answer_json
from streamkeeper.model.secret_names import masked_code
from streamkeeper.operations.deploys.changed_jobs import ChangeKind, JobChange

MARKER = "<!-- streamkeeper-check -->"
"""The first line of a comment, by which the next run finds the comment."""
MOST_CHARACTERS = 60_000
"""The longest comment in characters; GitHub refuses more than 65,536."""

_LONGEST_CELL = 1_000
_MOST_NAMES = 100
_NO_CODE = str.maketrans("`|\n", "'/ ")


class CheckedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a code change may affect, with the result of its check."""

    change: JobChange
    """The job and its kind of change."""
    answer: CheckAnswer | None = None
    """The check's answer; None unless the job has changed."""
    transitions: dict[str, tuple[str, str, str]] = {}
    """Query -> path, its effect, its cost."""
    refusal: str = ""
    """Why no path is possible; empty if there is one."""
    differences: tuple[Difference, ...] = ()
    """Differences from the current release, if requested."""

    @property
    def error(self) -> str:
        """Why the job could not be checked; empty if it was checked or needs no check."""
        return masked_code(self.change.error or (self.answer.error if self.answer is not None else ""))

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the check; None if the job was not checked."""
        return self.answer.assessment.verdict if self.answer is not None and self.answer.assessment else None


def changes_json(jobs: Iterable[CheckedJob]) -> dict[str, object]:
    """Return the JSON report, which maps each job to its kind of change and its current release.

    A changed job also has the fields of ``check --json`` and the planned transitions.
    """
    return {"jobs": {job.change.job: _job_json(job) for job in jobs}}


def _job_json(job: CheckedJob) -> dict[str, object]:
    found: dict[str, object] = {"change": job.change.kind.value, "release": job.change.release}
    if job.error:
        return {**found, "error": job.error}
    if job.answer is None:
        return found
    transitions = {
        query: {"way": way, "does": does, "takes": takes} for query, (way, does, takes) in job.transitions.items()
    }
    return {**found, **answer_json(job.answer), "ways": transitions, "refusal": job.refusal}


def render_changes(jobs: Sequence[CheckedJob]) -> str:
    """Return the report as plain text: the checked jobs, then one line for each reason why other jobs were not
    checked.
    """
    lines: list[str] = []
    for job in jobs:
        if job.error:
            lines += [f"job {job.change.job}: NOT CHECKED: {job.error}", ""]
        elif job.answer is not None and job.answer.assessment is not None:
            lines.append(f"job {job.change.job}, against {job.change.release}")
            lines += render_text(job.answer.assessment).splitlines()
            lines += [f"path: none: {job.refusal}"] if job.refusal else []
            lines += [f"path of query {query}: {does}; {takes}" for query, (_, does, takes) in job.transitions.items()]
            lines.append("")
    unchecked = [f"{heading}: {', '.join(names)}. {why}" for heading, names, why in _not_checked(jobs)]
    return visible(
        "\n".join([*(lines or ["no job's code differs from its current release", ""]), *unchecked, ""]).lstrip("\n")
    )


def render_comment(jobs: Sequence[CheckedJob], *, differences: bool = False) -> str:
    """Return the report as Markdown: a table of the changed jobs, then their findings in folded sections.

    ``differences``: add folded sections with the differences. If a section would make the comment too long, the comment
    contains only the section's name.
    """
    page = "\n".join([MARKER, *_summary(jobs)])
    left_out: list[str] = []
    parts = [*_findings(jobs), *(_differences(jobs) if differences else ())]
    for title, part in parts:
        if len(page) + len(part) > MOST_CHARACTERS:
            left_out.append(title)
        else:
            page += f"\n{part}"
    if left_out:
        page += f"\nToo long for a comment: {_listed(left_out)}. `streamkeeper check --changed --diff` shows all.\n"
    return page


def _summary(jobs: Sequence[CheckedJob]) -> Iterator[str]:
    changed = [job for job in jobs if job.error or job.verdict is not None]
    if not changed:
        yield from ("### Streamkeeper: no job's code differs from its current release", "")
    else:
        yield from (f"### Streamkeeper: {_worst(changed)}", "")
        yield from ("| job | verdict | planned actions | cost |", "|---|---|---|---|")
        yield from _rows(sorted(changed, key=lambda job: (not job.error, -(job.verdict or 0), job.change.job)))
        yield ""
    for heading, names, why in _not_checked(jobs):
        yield from (f"**{heading}**: {_listed([*map(_code, names)])}. {why}", "")


def _rows(jobs: Sequence[CheckedJob]) -> Iterator[str]:
    """Yield as many table rows as fit, one per changed job, the most severe first."""
    left = MOST_CHARACTERS // 2
    for number, job in enumerate(jobs):
        row = f"| {_code(job.change.job)} | {' | '.join(_cells(job))} |"
        left -= len(row)
        if left < 0:
            yield f"| … | {len(jobs) - number} more | `streamkeeper check --changed` shows all |  |"
            return
        yield row


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _code(name: str) -> str:
    """Return a name as Markdown code, safe for a file name with any characters."""
    return f"`{visible(name).translate(_NO_CODE)}`"


def _worst(jobs: Sequence[CheckedJob]) -> str:
    failed = sum(1 for job in jobs if job.error)
    verdict = max((job.verdict for job in jobs if job.verdict is not None), default=None)
    failures = [f"{failed} of {len(jobs)} changed jobs could not be checked"] if failed else []
    return "; ".join([*failures, *([verdict.name] if verdict is not None else [])])


def _cells(job: CheckedJob) -> tuple[str, str, str]:
    if job.error or job.verdict is None:
        return "**not checked**", _cell(job.error), ""
    if job.refusal:
        return f"**{job.verdict.name}**", f"none: {_cell(job.refusal)}", ""
    does = (f"`{query}`: {_cell(texts[1])}" for query, texts in job.transitions.items())
    takes = (f"`{query}`: {_cell(texts[2])}" for query, texts in job.transitions.items())
    return f"**{job.verdict.name}**", "<br>".join(does), "<br>".join(takes)


def _cell(text: str) -> str:
    return escaped(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]} …")


def _not_checked(jobs: Sequence[CheckedJob]) -> Iterator[tuple[str, list[str], str]]:
    """Yield heading, names and consequence for each kind of job that needs no comparison."""
    of_kind = {kind: [job.change.job for job in jobs if job.change.kind is kind] for kind in ChangeKind}
    first, missing, same = of_kind[ChangeKind.FIRST], of_kind[ChangeKind.NO_FILE], of_kind[ChangeKind.SAME]
    if first:
        renamed = " A renamed job counts as new." if missing else ""
        yield "First deploys", first, f"These jobs have no current release: they start without state.{renamed}"
    if missing:
        yield "Running without a file here", missing, "They keep running until a person stops them."
    if same:
        yield "Unchanged", same, "Their code is that of their current release."


def _findings(jobs: Iterable[CheckedJob]) -> Iterator[tuple[str, str]]:
    for job in jobs:
        if job.answer is not None and job.answer.assessment is not None:
            title = f"findings, against {job.change.release}"
            yield _folded("findings", job.change, title, render_markdown(job.answer.assessment))


def _differences(jobs: Iterable[CheckedJob]) -> Iterator[tuple[str, str]]:
    for job in jobs:
        if job.differences:
            title = f"difference to {job.change.release}"
            yield _folded("difference", job.change, title, render_differences(job.differences, level=4))


def _folded(what: str, change: JobChange, summary: str, text: str) -> tuple[str, str]:
    """Return a title, used if the part does not fit into the comment, and the folded part."""
    part = f"<details><summary>{change.job}: {summary}</summary>\n\n{text}\n</details>\n"
    return f"{what} of `{change.job}`", part
