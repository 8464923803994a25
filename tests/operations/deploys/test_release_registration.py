"""Pushing releases: their numbers, equal content, concurrent pushes, and refusals that register nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamkeeper.errors import InvalidInput, JobUnusable, NotFound, StreamkeeperError
from streamkeeper.model.manifests.release import STATE_FORMAT, Release
from streamkeeper.model.records.journal_records import OperationStarted, ReleaseRegistered
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.deploys.release_registration import push_release
from streamkeeper.operations.jobs.release_list import list_releases
from streamkeeper.registry.bundles import unpack_bundle
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import read_object
from streamkeeper.stores.contract import Store
from streamkeeper.stores.store_urls import open_store


@dataclass(frozen=True)
class SmallSite:
    """The parts of an installation that a push needs."""

    settings: Settings
    store: Store
    id: str = ""

    def journal(self, job: str, writer: str) -> Journal:
        return Journal(self.store, job, writer=writer)


@pytest.fixture
def site(tmp_path: Path) -> SmallSite:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "sales.py").write_text("import shapes\n")
    (jobs / "shapes.py").write_text("x = 1\n")
    store = f"{tmp_path}/store"
    settings = Settings(
        store=store, checkpoints=f"{tmp_path}/checkpoints", jobs=str(jobs), home=str(tmp_path), confs=("spark.jars",)
    )
    return SmallSite(settings, open_store(store))


def push(site: SmallSite, job: str = "sales", **given: dict[str, object]) -> Release:
    return push_release(site, job, params=given.get("params", {}), conf=given.get("conf", {}))  # type: ignore[arg-type]


def releases(site: SmallSite) -> list[str]:
    return list(Journal(site.store, "sales", writer="test").state().releases)


def test_a_pushed_release_can_be_run_from_the_store_alone(site: SmallSite, tmp_path: Path) -> None:
    """A pushed release has its params and conf recorded and its bundle stored under its hash, so that it can be
    unpacked from the store alone.
    """
    release = push(site, params={"input": "/data", "n": 3}, conf={"spark.sql.shuffle.partitions": "4"})
    assert (release.name, release.job, release.content.entry) == ("r0001", "sales", "sales.py")
    assert release.content.params == {"input": "/data", "n": 3}
    assert release.content.state_format == STATE_FORMAT
    data = read_object(site.store, "sales", "bundles", release.content.bundle, ".zip")
    assert len(data) == release.content.bundle_bytes
    unpack_bundle(data, tmp_path / "bundles" / release.content.bundle)
    assert (tmp_path / "bundles" / release.content.bundle / "shapes.py").read_text() == "x = 1\n"


def test_the_list_shows_time_and_author_of_each_registration(site: SmallSite) -> None:
    """The list shows for each release the time and the author of the entry that registered it; other entries change
    neither.
    """
    push(site, params={"n": 1})
    push(site, params={"n": 2})
    journal = site.journal("sales", "test")
    journal.append(lambda _: OperationStarted(operation="op", request=DeployRequest(job="sales"), steps=()))
    listed = list_releases(site, journal.state())  # type: ignore[arg-type]
    entries = [entry for entry in journal.entries() if isinstance(entry.record, ReleaseRegistered)]
    assert [each.release.name for each in listed] == ["r0001", "r0002"]
    assert [each.registered_at for each in listed] == [entry.at for entry in entries]
    assert [each.author for each in listed] == [entry.by.partition("#")[0] for entry in entries]
    assert all(each.author for each in listed)


def test_equal_content_is_the_same_release(site: SmallSite) -> None:
    """Pushing equal content a second time returns the existing release, even after other releases."""
    first = push(site, params={"n": 1})
    second = push(site, params={"n": 2})
    assert push(site, params={"n": 1}) == first
    assert push(site, params={"n": 2}) == second
    assert releases(site) == ["r0001", "r0002"]


@pytest.mark.parametrize("change", ["code", "params", "conf", "text", "float", "truth"])
def test_any_change_of_content_is_a_new_release(site: SmallSite, change: str) -> None:
    """A change of code, params or conf, or of the type of a param, makes a new release."""
    first = push(site, params={"n": 1})
    given: dict[str, dict[str, object]] = {"params": {"n": 1}}
    match change:
        case "code":
            Path(site.settings.jobs, "shapes.py").write_text("x = 2\n")
        case "params":
            given = {"params": {"n": 2}}
        case "conf":
            given["conf"] = {"spark.sql.a": "1"}
        case _:
            given = {"params": {"n": {"text": "1", "float": 1.0, "truth": True}[change]}}
    assert push(site, **given).name == "r0002"
    assert push(site, params={"n": 1}).number == (2 if change == "code" else first.number)


def test_concurrent_pushes_of_equal_content_create_one_release(site: SmallSite) -> None:
    """Eight concurrent pushes of two contents create exactly two releases, and each content has one number."""
    with ThreadPoolExecutor(8) as pool:
        pushed = list(pool.map(lambda n: push(site, params={"n": n % 2}), range(8)))
    assert len({each.name for each in pushed}) == 2
    assert all(len({each.name for each in pushed[n::2]}) == 1 for n in (0, 1))
    assert sorted(releases(site)) == ["r0001", "r0002"]


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"job": "gone"}, NotFound, "no job gone"),
        ({"job": "../sales"}, InvalidInput, "job name"),
        ({"params": {"url": "secret://vault/x"}}, InvalidInput, "param url"),
        ({"conf": {"spark.sql.streaming.checkpointLocation": "/x"}}, InvalidInput, "checkpointLocation cannot be set"),
        ({"conf": {"spark.a": 3}}, InvalidInput, "conf spark.a: 3 is not text"),
        ({"conf": {"shuffle": "3"}}, InvalidInput, "conf shuffle is not a Spark conf"),
        ({"conf": {"spark.master": "yarn"}}, InvalidInput, "spark.master=yarn cannot be set"),
        ({"conf": {"spark.jars": "/gone.jar"}}, InvalidInput, "/gone.jar"),
        (
            {"conf": {"spark.plugins": "Mine"}},
            InvalidInput,
            "a deploy may not set conf spark.plugins in this installation",
        ),
        ({"job": "broken"}, JobUnusable, "broken.py:1"),
    ],
)
def test_a_refused_push_registers_nothing(
    site: SmallSite, given: dict[str, object], error: type[StreamkeeperError], named: str
) -> None:
    """A refused push reports what is wrong and leaves neither a record nor an object in the store."""
    Path(site.settings.jobs, "broken.py").write_text("def f(:\n")
    with pytest.raises(error, match=named.replace(".", r"\.")):
        push(site, **given)  # type: ignore[arg-type]
    assert not [*Path(site.settings.store).rglob("*.json"), *Path(site.settings.store).rglob("*.zip")]


def test_a_secret_is_stored_as_its_reference_only(site: SmallSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push stores a secret param only as its reference; the value is not in the store."""
    monkeypatch.setenv("STREAMKEEPER_SECRET_DB_PASSWORD", "hunter2")
    release = push(site, params={"password": "secret://env/DB_PASSWORD"})
    assert release.content.params == {"password": "secret://env/DB_PASSWORD"}
    stored = [path.read_bytes() for path in Path(site.settings.store).rglob("*") if path.is_file()]
    assert stored
    assert not any(b"hunter2" in each for each in stored)


CRASHING_PUSH = """
import sys
from tests.operations.deploys.test_release_registration import SmallSite, push
from streamkeeper.model.settings.settings import read_settings
from streamkeeper.stores.store_urls import open_store
import os
settings = read_settings(os.environ)
push(SmallSite(settings, open_store(settings.store)))
"""


@pytest.mark.parametrize("point", ["record.release-registered.before", "record.release-registered.after"])
def test_a_killed_push_is_repaired_by_the_next_one(site: SmallSite, point: str) -> None:
    """After a push was killed before or after its record, the next push leaves exactly one release."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "STREAMKEEPER_HOME": site.settings.home,
        "STREAMKEEPER_STORE": site.settings.store,
        "STREAMKEEPER_JOBS": site.settings.jobs,
        "STREAMKEEPER_CRASH": point,
    }
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-c", CRASHING_PUSH]
    done = subprocess.run(command, env=environ, cwd=root, timeout=60, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(releases(site)) == (1 if point.endswith("after") else 0)
    assert push(site).name == "r0001"
    assert releases(site) == ["r0001"]
