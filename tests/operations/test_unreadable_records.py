"""Records that cannot be read: each is reported, and hides neither its own job nor the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.model.health import Severity
from streamkeeper.model.journal_keys import entry_key
from streamkeeper.model.liveness import Life
from streamkeeper.operations import job_look
from tests.operations.registered_job import JOB
from tests.operations.test_watching import House

NEWER = (
    b'{"number": %d, "at": "2026-11-26T10:00:00Z", "by": "newer", "drivers_may_pass": %s, "record": {"type": "novel"}}'
)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A job whose driver lives; one pass has been made."""
    house = House(tmp_path)
    house.job.runner.life = Life.ALIVE
    house.make()
    return house


def add_entry(house: House, data: bytes) -> str:
    """Put this as the next entry of the journal; its key."""
    number = house.site.journal(JOB, "test").state().number + 1
    key = entry_key(JOB, number)
    house.site.store.create(key, data % ((number, b"false") if b"%d" in data else ()))
    return key


@pytest.mark.parametrize("data", [b'{"number": 7, "at"', NEWER], ids=["torn", "of a newer version"])
def test_a_journal_entry_that_cannot_be_read_pages_with_its_name(house: House, data: bytes) -> None:
    """Raised while the driver lives, and kept with the driver's death in its sentence; nothing is started."""
    key = add_entry(house, data)
    for life in (Life.ALIVE, Life.DEAD):
        house.job.runner.life = life
        (row,) = house.make(after_s=60, acts=True).index.rows
        (symptom,) = row.symptoms
        assert (symptom.rule, symptom.severity) == ("journal-unreadable", Severity.PAGE)
        assert key in symptom.cause
        assert ("has ended" in symptom.cause) is (life is Life.DEAD)
        assert (row.release, row.wanted, row.life) == ("r0001", True, life)
    assert house.raised() == ["journal-unreadable"]
    assert ["journal-unreadable raised" in each.subject for each in house.told] == [True]


def test_the_page_ends_once_the_entry_can_be_read(house: House) -> None:
    """Taken away again, nothing of the page is left, and a dead driver is paged as usual."""
    key = add_entry(house, b"{")
    house.make(after_s=60)
    house.site.store.delete(key)
    house.job.runner.life = Life.DEAD
    (row,) = house.make(after_s=60).index.rows
    assert [each.rule for each in row.symptoms] == ["driver-dead"]


def test_a_first_pass_pages_without_knowing_the_driver(house: House) -> None:
    """No earlier pass has read the journal: who should serve is unknown, and the page is raised all the same."""
    add_entry(house, b"{")
    (Path(house.site.settings.store) / "fleet" / "index.json").unlink()
    (row,) = house.make(after_s=60).index.rows
    assert [each.rule for each in row.symptoms] == ["journal-unreadable"]
    assert row.release == ""


def test_without_the_remembered_facts_and_the_rule_a_dead_driver_is_hidden(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: only an info is left, which sends nothing."""
    add_entry(house, b"{")
    house.job.runner.life = Life.DEAD
    real = job_look.compose_look

    def forgetting(site, seen, now, prune):  # type: ignore[no-untyped-def]
        seen.facts = None
        look, memory = real(site, seen, now, prune)
        return replace(look, unreadable=""), memory

    monkeypatch.setattr("streamkeeper.operations.watching.compose_look", forgetting)
    (row,) = house.make(after_s=60).index.rows
    assert [each.rule for each in row.symptoms] == ["not-looked"]
    assert house.told == []
