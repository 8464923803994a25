"""Unreadable records: each is reported, and hides neither its own job nor other jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamkeeper.errors import InvalidInput, RegistryDamaged
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_keys import entry_key
from streamkeeper.model.watch.health import Urgency
from streamkeeper.model.watch.incident import incident_key
from streamkeeper.operations.fleet import fleet_look, job_look, watching
from streamkeeper.registry.incidents import IncidentLog
from tests.operations.fleet.test_watching import House
from tests.operations.registered_job import JOB

NEWER = (
    b'{"number": %d, "at": "2026-11-26T10:00:00Z", "by": "newer", "drivers_may_pass": %s, "record": {"type": "novel"}}'
)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A job with a live driver, after one pass of the watch."""
    house = House(tmp_path)
    house.job.runner.life = Life.ALIVE
    house.make()
    return house


def add_entry(house: House, data: bytes) -> str:
    """Append this data to the journal and return its key."""
    number = house.installation.journal(JOB, "test").state().number + 1
    key = entry_key(JOB, number)
    house.installation.store.create(key, data % ((number, b"false") if b"%d" in data else ()))
    return key


@pytest.mark.parametrize("data", [b'{"number": 7, "at"', NEWER], ids=["torn", "of a newer version"])
def test_a_journal_entry_that_cannot_be_read_pages_with_its_name(house: House, data: bytes) -> None:
    """An unreadable journal entry raises one page that names it, while the driver lives and after the driver has died;
    nothing is started.
    """
    key = add_entry(house, data)
    for life in (Life.ALIVE, Life.DEAD):
        house.job.runner.life = life
        (row,) = house.make(after_s=60, acts=True).index.rows
        (symptom,) = row.symptoms
        assert (symptom.rule, symptom.severity) == ("journal-unreadable", Urgency.PAGE)
        assert key in symptom.cause
        assert ("has ended" in symptom.cause) is (life is Life.DEAD)
        assert (row.release, row.wanted, row.life) == ("r0001", True, life)
    assert house.raised() == ["journal-unreadable"]
    assert ["journal-unreadable raised" in each.subject for each in house.told] == [True]


def test_the_page_ends_once_the_entry_can_be_read(house: House) -> None:
    """Once the unreadable entry is removed, its page disappears, and a dead driver is paged as usual."""
    key = add_entry(house, b"{")
    house.make(after_s=60)
    house.installation.store.delete(key)
    house.job.runner.life = Life.DEAD
    (row,) = house.make(after_s=60).index.rows
    assert [each.rule for each in row.symptoms] == ["driver-dead"]


def test_the_first_pass_pages_an_unreadable_journal_without_recorded_facts(house: House) -> None:
    """The first pass pages an unreadable journal although no earlier pass has recorded which release should run."""
    add_entry(house, b"{")
    (Path(house.installation.settings.store) / "fleet" / "index.json").unlink()
    (row,) = house.make(after_s=60).index.rows
    assert [each.rule for each in row.symptoms] == ["journal-unreadable"]
    assert row.release == ""


def test_without_cached_facts_and_rule_a_dead_driver_is_not_paged(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the remembered facts and the rule, only the info ``not-looked`` remains, and no notice
    is sent.
    """
    add_entry(house, b"{")
    house.job.runner.life = Life.DEAD
    real = job_look.compose_look

    def forgetting(site, seen, now, prune):  # type: ignore[no-untyped-def]
        seen.facts = None
        look, memory = real(site, seen, now, prune)
        return replace(look, unreadable=""), memory

    monkeypatch.setattr("streamkeeper.operations.fleet.watching.compose_look", forgetting)
    (row,) = house.make(after_s=60).index.rows
    assert [each.rule for each in row.symptoms] == ["not-looked"]
    assert house.told == []


STRAYS = ("registry/plain.bak", "control/plain.bak", "carriers/Plain", "incidents/plain.bak")


def test_folders_without_a_job_name_are_skipped_and_reported(house: House) -> None:
    """Folders whose names are not job names are skipped and reported, and the dead driver of a real job is still
    paged.
    """
    for stray in STRAYS:
        house.installation.store.create(f"{stray}/journal/0000000001.json", b"{")
    house.job.runner.life = Life.DEAD
    index = house.make(after_s=60).index
    assert [(row.job, row.symptoms[0].rule) for row in index.rows] == [(JOB, "driver-dead")]
    assert index.failed == tuple(
        f"folder {stray} is skipped, because its name is not the name of a job" for stray in STRAYS
    )


def test_a_pass_that_accepts_invalid_folders_as_jobs_fails(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a pass that accepts such a folder as a job fails as a whole."""
    house.installation.store.create("registry/plain.bak/journal/0000000001.json", b"{")
    monkeypatch.setattr(fleet_look, "list_jobs", lambda store: sorted(store.folders("registry/")))
    with pytest.raises(InvalidInput, match="plain.bak"):
        house.make(after_s=60)


@pytest.mark.parametrize("part", ["_look_deeper", "compose_look"])
def test_an_unexpected_error_of_one_job_hides_no_other_job(
    house: House, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """An unexpected error while one job is checked is reported for that job only, and the next job is still paged."""
    house.installation.store.create("registry/broken/journal/0000000001.json", b"{")
    house.job.runner.life = Life.DEAD
    module = watching if part == "compose_look" else fleet_look
    real = getattr(module, part)

    def breaking(site, seen, *rest):  # type: ignore[no-untyped-def]
        if seen.job == "broken":
            raise KeyError("gone")
        return real(site, seen, *rest)

    monkeypatch.setattr(module, part, breaking)
    rows = {row.job: row for row in house.make(after_s=60).index.rows}
    assert [each.rule for each in rows[JOB].symptoms] == ["driver-dead"]
    assert "KeyError" in rows["broken"].unlooked["job"]
    assert rows["broken"].symptoms


def test_a_job_whose_check_failed_is_not_started(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose check failed is not started, because its checkpoint was not examined. Negative control: without the
    error a start is planned.
    """
    house.job.runner.life = Life.DEAD
    assert any("would start sales" in line for line in house.make(after_s=60, acts=True, dry_run=True).lines)

    def breaking(*_: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(fleet_look, "_look_deeper", breaking)
    assert not any("would start" in line for line in house.make(after_s=60, acts=True, dry_run=True).lines)


def test_an_unreadable_incident_record_silences_no_notice(house: House) -> None:
    """With a truncated or missing incident record, the page is still raised and sent once, and each skipped record is
    reported.
    """
    store = house.installation.store
    store.create(incident_key(JOB, 1), b'{"number": 1')
    store.create(incident_key(JOB, 3), b"{}")
    (Path(house.installation.settings.store) / "fleet" / "index.json").unlink()
    house.job.runner.life = Life.DEAD
    report = house.make(after_s=60)
    assert [each.subject for each in house.told] == ["[page] sales: driver-dead raised"]
    log = IncidentLog(store, JOB)
    assert set(log.state().open) == {"driver-dead/-"}
    assert [why.partition(" ")[0] for why in log.passed] == [incident_key(JOB, number) for number in (1, 2, 3)]
    assert len([line for line in report.index.failed if "an incident record is skipped" in line]) == 3
    house.make(after_s=60)
    assert len(house.told) == 1


def test_an_incident_record_under_a_wrong_number_is_skipped_and_reported(house: House) -> None:
    """An incident record that is stored under the wrong number is skipped and reported, and the incident stays open."""
    house.job.runner.life = Life.DEAD
    house.make(after_s=60)
    store = house.installation.store
    newest = len(house.entries)
    store.create(incident_key(JOB, newest + 1), store.read(incident_key(JOB, 1)))
    log = IncidentLog(store, JOB)
    assert set(log.state().open) == {"driver-dead/-"}
    assert log.state().number == newest + 1
    assert log.passed == [f"{incident_key(JOB, newest + 1)} contains record 1"]


def test_aborting_at_a_truncated_incident_record_sends_no_notice(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: if a truncated incident record aborted the reading, no notice would be sent."""
    house.installation.store.create(incident_key(JOB, 1), b"{")
    (Path(house.installation.settings.store) / "fleet" / "index.json").unlink()
    house.job.runner.life = Life.DEAD

    def damaged(*_: object) -> None:
        raise RegistryDamaged("torn")

    monkeypatch.setattr(IncidentLog, "_understand", damaged)
    assert any("cannot be recorded: torn" in line for line in house.make(after_s=60).index.failed)
    assert house.told == []
