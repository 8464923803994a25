"""Real drivers on a checkpoint in a bucket: one behind a proxy that drops answers, and two that write the same files.

In ``run_race`` the protections that keep two drivers apart are off: the proof of death, the lease, the ownership checks
of the journal and the table, and the old driver's obedience to commands. Both drivers have opened the checkpoint and
wait for input; then the proxy makes them meet at every file of a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from chaos.cases import started_without
from chaos.on_s3 import bucket_bed
from harness.bed import Bed
from harness.ledger import compare_totals, read_rows, totals_of
from harness.outputs import read_totals
from harness.places import ROOT
from harness.producer import SALES, write_whole
from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.registry.driver_control import Control

JOB, QUERY = "sales_totals", "totals"
LET_TWO_LIVE = "death-proof+lease+owner+closing+obeying+table-fence"
_LOGS = re.compile(r"/(sources/\d+|offsets|commits)/\d+$")
_RACED_FILES = 3


class Raced(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a race; ``both``: batches that both drivers were informed they had committed; ``went_on``: the
    drivers that live and committed the last batch; ``ended``: the error of each of the others; ``met``: files that both
    wrote at the same time.
    """

    both: int
    went_on: tuple[str, ...]
    ended: dict[str, str]
    met: int

    @property
    def damage(self) -> str:
        """The damage; empty if exactly one driver continues and the other has reported why it stopped."""
        if self.both or len(self.went_on) != 1 or not all(self.ended.values()):
            return f"{self.both} batches were committed by both drivers, {len(self.went_on)} of them go on"
        return ""


class Lossy(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run with faults; ``batches``: committed by the original driver; ``faults``: made by the proxy, by
    kind; ``damage``: empty if that driver still serves and the table holds every row once.
    """

    batches: int
    faults: dict[str, int]
    damage: str


class ServedSite:
    """A bed that serves one job, with the drivers that it has started; ``off`` lists the protections that its drivers
    lack.
    """

    def __init__(self, bed: Bed, off: str) -> None:
        self.bed, self._off = bed, off
        self._files = 0
        self.drivers: list[str] = []

    def deploy(self) -> None:
        """Deploy a new release; raises RuntimeError when the deploy fails."""
        params = {
            "input": str(self.bed.input / SALES),
            "warehouse": f"sqlite:///{self.bed.root}/warehouse.db",
            "trigger": f"{200 + len(self.drivers)} milliseconds",
        }
        conf = [word for key in ("spark.sql.shuffle.partitions=1", "spark.master=local[1]") for word in ("--conf", key)]
        words = ["--params", json.dumps(params), "--reason", "campaign", "--probation-batches", "1", *conf]
        run = self.bed.command("deploy", JOB, *words, by=started_without(self._off))
        if run.returncode:
            raise RuntimeError(run.stdout + run.stderr)
        self.drivers.append(self.bed.installation.journal(JOB, "campaign").state().serving_instance)

    def add(self) -> None:
        """Add one input file."""
        self._files += 1
        write_whole(self.bed.input / SALES, f"{self._files:06d}.csv", [(f"e{self._files}", "c1", self._files)])

    def status(self, instance: str) -> DriverStatus:
        """Return the latest status of a driver."""
        status = Control(self.bed.installation.store, JOB, instance).read_status()
        assert status is not None
        return status

    def committed(self, instance: str) -> int:
        """Return the newest batch that the driver reports as committed, or -1."""
        query = self.status(instance).queries.get(QUERY)
        return -1 if query is None or query.committed is None else query.committed

    def lives(self, instance: str) -> bool:
        """Return whether the driver has not stopped."""
        return not self.status(instance).state.terminal

    def wait_for_batch(self, batch: int, *, somebody_ended: Callable[[], None] = lambda: None) -> None:
        """Wait until every living driver has committed the batch."""

        def is_through() -> bool:
            living = [name for name in self.drivers if self.lives(name)]
            if len(living) < len(self.drivers):
                somebody_ended()
            return all(self.committed(name) >= batch for name in living)

        wait_for(f"batch {batch}", is_through, timeout_s=240)

    def wrong(self) -> str:
        """Return how the table differs from the input."""
        warehouse = self.bed.root / "warehouse.db"
        account = compare_totals(
            JOB, totals_of(read_rows(self.bed.input / SALES)), read_totals(warehouse, "sales_totals")
        )
        return "" if account.clean else f"lost {account.lost}, doubled {account.duplicated}"


def run_race(root: Path, off: str = "") -> Raced:
    """Race two drivers on a fresh installation; ``off`` lists further protections that are switched off."""
    with bucket_bed(root, [ROOT / f"jobs/{JOB}.py"]) as (bed, proxy):
        site = ServedSite(bed, "+".join(filter(None, [LET_TWO_LIVE, off])))
        site.deploy()
        site.add()
        site.wait_for_batch(0)
        site.deploy()
        proxy.meets = _LOGS
        for batch in range(1, _RACED_FILES + 1):
            site.add()
            # Whoever is left would wait for nobody.
            site.wait_for_batch(batch, somebody_ended=proxy.let_go)
        batches = range(1, _RACED_FILES + 1)
        lives = {name: site.lives(name) for name in site.drivers}
        return Raced(
            both=sum(all(site.committed(name) >= batch for name in site.drivers) for batch in batches),
            went_on=tuple(name for name in site.drivers if lives[name] and site.committed(name) >= _RACED_FILES),
            ended={name: site.status(name).error for name in site.drivers if not lives[name]},
            met=proxy.made["met"],
        )


def serve_through_faults(root: Path, off: str = "", *, batches: int = 60, refused: float, lost: float) -> Lossy:
    """Run one driver through faults on a fresh installation; ``refused`` is the share of requests that are refused,
    ``lost`` the share of answers to writes that are lost.
    """
    with bucket_bed(root, [ROOT / f"jobs/{JOB}.py"]) as (bed, proxy):
        site = ServedSite(bed, off)
        site.deploy()
        proxy.refuse_share, proxy.lose_share = refused, lost
        (driver,) = site.drivers
        for batch in range(batches):
            site.add()
            site.wait_for_batch(batch)
            if not site.lives(driver):
                break
        proxy.refuse_share = proxy.lose_share = 0.0
        status = site.status(driver)
        damage = status.error if status.state.terminal else site.wrong()
        if status.generation > 1:
            damage = f"the driver was started {status.generation} times; {damage}"
        return Lossy(batches=site.committed(driver) + 1, faults=dict(proxy.made), damage=damage)
