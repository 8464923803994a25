"""Tests the fleet's page: it reads only the index, in a single request to the store, and shows foreign content as plain
text.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace as changed
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.model.watch.fleet_index import INDEX_KEY
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.registry.fleet import open_index
from streamkeeper.stores.counting import CountingStore
from tests.operations.registered_job import JOB, Registered
from tests.pages.asking import get, leave_index, make_site, make_viewed
from tests.pages.rows import FLEET, remembered, row, wrong

MARKUP = "<script>alert(1)</script>"


class Cells(HTMLParser):
    """A parser that collects the text of each table cell, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._inside = tag
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())


def cells(text: str) -> dict[str, dict[str, str]]:
    """Return the table as a mapping of job to column to text."""
    header, *rows = Cells(text).rows
    return {each[0]: dict(zip(header, each, strict=True)) for each in rows}


def test_the_page_has_one_row_per_job(tmp_path: Path) -> None:
    """The page has a row for every job that is not forgotten, with all columns, a link to the job's page and a link to
    its open operation.
    """
    site = make_site(tmp_path)
    leave_index(site, *FLEET)
    text = get(make_viewed(site), "/", under="/streamkeeper").text
    found = cells(text)
    assert list(found) == ["gamma", "beta", "alpha", "delta"]
    assert found["alpha"] == {
        "Job": "alpha", "Status": "running", "Release": "r0003", "Health": "healthy", "Lag": "12 s",
        "Batch duration": "1.2 s of 5 s", "Rows/s": "40", "Last commit": "4 min", "Verified backup": "2 h",
        "In progress": "-", "Owner": "airflow:ada",
    }  # fmt: skip
    assert found["gamma"]["Health"] == "page stalled (q) no trigger Runbook: A job stands still"
    assert found["gamma"]["In progress"] == "deploy at approve for 0 s waits for approval"
    assert 'href="/streamkeeper/jobs/gamma"' in text
    assert 'href="/streamkeeper/jobs/gamma/operations/op-1"' in text
    assert "4 of 4 jobs" in text
    assert "1 forgotten" in text


def test_a_view_of_1000_jobs_costs_one_store_request(tmp_path: Path) -> None:
    """A view of 1000 jobs makes exactly one request to the store, the one for the index."""
    site = make_site(tmp_path)
    leave_index(site, *(row(f"job_{number:04}") for number in range(1000)))
    store = CountingStore(site.store)
    page = make_viewed(changed(site, store=store))
    for path in ("/", "/?part=jobs", "/?search=job_0042&sort=lag"):
        before = store.requests
        assert get(page, path).status_code == 200
        assert store.requests - before == 1, path


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("search=lag+grows", ["beta"]),
        ("health=wrong&standing=&under_way=&owner=&search=", ["gamma", "beta"]),
        ("standing=failed", ["gamma"]),
        ("under_way=waits", ["gamma"]),
        ("owner=cli%3Abob", ["beta"]),
        ("sort=job&turned=1", ["gamma", "delta", "beta", "alpha"]),
    ],
)
def test_the_query_string_filters_and_sorts_jobs(tmp_path: Path, query: str, found: list[str]) -> None:
    """The query string of the address filters and sorts the jobs without a script, empty fields are ignored, and the
    form shows the chosen values.
    """
    site = make_site(tmp_path)
    leave_index(site, *FLEET)
    page = make_viewed(site)
    text = get(page, f"/?{query}").text
    assert list(cells(text)) == found
    for name, value in re.findall(r"(health|standing|under_way|owner)=([^&]+)", query):
        chosen = re.search(rf'<select name="{name}">(.*?)</select>', text, re.DOTALL)
        assert chosen
        assert re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', chosen[1])
        assert value.replace("%3A", ":") in chosen[1]
    part = get(page, f"/?part=jobs&{query}")
    assert list(cells(part.text)) == found
    assert "part" not in part.headers["HX-Replace-Url"]


@pytest.mark.parametrize("query", ["sort=password", "standing=well", "health=x", "page=0", "search=" + "x" * 201])
def test_an_invalid_query_string_returns_400_with_the_field(tmp_path: Path, query: str) -> None:
    """An invalid query string returns 400 with one sentence that names the field."""
    answer = get(make_viewed(make_site(tmp_path)), f"/?{query}")
    assert answer.status_code == 400
    assert f"cannot be read: {query.split('=')[0]}:" in answer.text


def test_the_page_explains_a_missing_or_unusable_index(tmp_path: Path) -> None:
    """Without a usable index (no pass yet, a different installation's, damaged, or a newer format), the page explains
    why and refreshes itself. Negative control: with a valid index, it shows the jobs.
    """
    site = make_site(tmp_path)
    page = make_viewed(site)
    assert "has made no pass over the jobs" in get(page, "/").text
    assert "switch on the DAG streaming_watch in Airflow" in get(page, "/").text
    leave_index(changed(site, record=replace(site.record, id="another")), row())  # type: ignore[type-var]
    assert "belongs to another installation" in get(page, "/").text
    assert "orders" not in get(page, "/").text
    site.store.replace(INDEX_KEY, b"{")
    assert "fleet/index.json" in get(page, "/").text
    site.store.replace(INDEX_KEY, b'{"format": 999, "number": 1, "started": 0}')
    assert "fleet/index.json" in get(page, "/").text
    assert 'data-refresh="5"' in get(page, "/").text
    leave_index(site, row())
    assert list(cells(get(page, "/").text)) == ["orders"], "negative control"


def test_pages_are_marked_out_of_date_after_missed_passes(tmp_path: Path) -> None:
    """The fleet's and the job's page show the age of the last pass and are marked out of date when it is too old (400
    s). Negative control: a pass 60 s ago is not marked.
    """
    job = Registered(tmp_path)
    page = make_viewed(job.installation)
    for age_s, marked in ((60, False), (400, True)):
        leave_index(job.installation, row(job=JOB, seen_at=0.0), started=time.time() - age_s)
        for path in ("/", f"/jobs/{JOB}"):
            text = get(page, path).text
            assert ("Out of date:" in text) is marked, (path, age_s)
            # On a loaded machine the page is built some seconds later.
            assert bool(re.search(r"\b(1 min|[6-9]\d s) ago", text)) is not marked, (path, age_s)


def test_markup_in_displayed_values_is_escaped(tmp_path: Path) -> None:
    """Markup in a cause, a reason, an owner, an error or a search is escaped and shown as text."""
    site = make_site(tmp_path)
    leave_index(
        site,
        row(**wrong(cause=MARKUP), stopped=MARKUP, standing=JobStatus.STOPPED, unlooked={MARKUP: MARKUP}),
        row("other", memory=remembered(owner=MARKUP, desired_release=MARKUP), release=MARKUP),
    )
    text = get(make_viewed(site), f"/?search={MARKUP}").text
    assert "alert(1)" in text
    assert MARKUP not in text
    assert "<script>" not in text


def test_an_index_of_an_earlier_version_without_rates_is_read(tmp_path: Path) -> None:
    """An index of an earlier version, without owners and batch figures, is read: the missing values are shown as ``-``
    and the others as usual.
    """
    site = make_site(tmp_path)
    leave_index(site, row(memory=remembered()))
    told = json.loads(site.store.read(INDEX_KEY))
    for name in ("batch_s", "trigger_s", "rows_per_s"):
        del told["rows"][0]["queries"]["q"][name]
    del told["rows"][0]["memory"]["facts"]["owner"]
    site.store.replace(INDEX_KEY, json.dumps(told).encode())
    found = cells(get(make_viewed(site), "/").text)["orders"]
    assert (found["Batch duration"], found["Rows/s"], found["Owner"], found["Lag"]) == ("-", "-", "-", "12 s")
    facts = open_index(site.store, site.id).rows[0].memory.facts
    assert facts is not None
    assert facts.owner is None
