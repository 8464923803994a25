"""Attacks on checkpoints: lost, in a different place, older than their outputs, or restored twice at the same time."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from contextlib import suppress

from chaos.attacks.attack import QUERIES, Attack
from chaos.cases import JOB, started_without
from harness.waiting import wait_for
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.registry.driver_control import Control

_ENDS_WITHIN_S = 60.0
_FREEZES_AT = ("restore.record.before", "restore.record.after", "restore.serve.before")


def restore_ahead(at: Attack, chance: random.Random) -> None:
    """Restore a snapshot that is older than the output while the driver's last status is no newer than the snapshot:
    the restore has to report what would be written twice.
    """
    query = at.way(*QUERIES)
    with at.ended():
        at.serve()
        at.must(at.run("snapshot", "take", JOB))
        word, instance = at.word(), at.state().serving_instance
        at.more(chance.uniform(1.5, 4.0))
        at.kill()
        Control(at.bed.installation.store, JOB, instance).write_status(word)
        at.did.append(f"a snapshot of {query} behind its output, the driver's last word put back to that")
        series = f"{JOB}/{query}"
        for look in (at.run("snapshot", "restore", series, "--dry-run"), at.run("snapshot", "show", series)):
            at.told.append(" ".join(look.stdout.split())[:300])
            if "no rows are written again" in look.stdout:
                at.damage.append(f"{query}: {look.stdout.strip().splitlines()[-1]}")
        restored = at.run("snapshot", "restore", series)
        if query == "audit":
            at.refused("restore", restored, "it is unknown which batches", "--accept-replay")
        else:
            at.must(restored)
        at.go_on()
        at.no_replays("restore")


def lost_checkpoint(at: Attack, chance: random.Random) -> None:
    """Delete a checkpoint directory under the serving driver, or replace it by an empty directory or an older copy."""
    query, how = chance.choice(QUERIES), at.way("deleted", "unmounted", "an older copy")
    with at.ended():
        at.serve()
        directory = at.checkpoint(query)
        older = at.bed.root / "older"
        shutil.copytree(directory, older)
        at.more()
        hidden = at.take_away(directory)
        if how == "unmounted":
            directory.mkdir()
        elif how == "an older copy":
            os.rename(older, directory)
        at.did.append(f"the checkpoint of {query} is {how}")
        at.feed()
        _ends(at)
        at.refused("take", at.run("snapshot", "take", f"{JOB}/{query}"), str(directory))
        at.refused("deploy", at.ask(), "checkpoint-lost")
        examined = at.run("fsck", str(directory))
        if how != "deleted" and (examined.returncode == 0 or "checkpoint-lost" not in examined.stdout):
            at.damage.append(f"fsck: {examined.stdout.strip()[-200:]}")
        at.put_back(hidden, directory)
        at.go_on()
        at.no_replays(how)


def _ends(at: Attack) -> None:
    """Require that the driver stops serving once the directory is not its checkpoint any more, and reports why."""
    instance = at.state().serving_instance

    def over() -> bool:
        status = Control(at.bed.installation.store, JOB, instance).read_status()
        return status is not None and status.state is DriverState.FAILED

    try:
        wait_for("an end", over, timeout_s=_ENDS_WITHIN_S)
    except TimeoutError:
        at.damage.append(f"{instance} still stands {at.word().state.value}")
        return
    at.told.append(at.word().error[:400])
    if "was not recorded" not in at.word().error and "checkpoint v" not in at.word().error:
        at.damage.append(f"it does not say why: {at.word().error[:300]}")


def elsewhere(at: Attack, chance: random.Random) -> None:
    """Deploy with variables that name a different place for checkpoints, or a different home, over the same store."""
    how, dies = at.way(("checkpoints", False), ("home", False), ("checkpoints", True), ("home", True))
    other = at.bed.root / "other"
    extra = {"STREAMKEEPER_CHECKPOINTS": str(other / "checkpoints")}
    if how == "home":
        extra = {"STREAMKEEPER_HOME": str(other / "home"), "STREAMKEEPER_STORE": (at.bed.home / "store").as_uri()}
    with at.ended():
        at.serve()
        if dies:
            at.kill()
        at.did.append(f"deployed with another {how}{', nothing alive' if dies else ''}")
        at.bed.start_producer(rows=5, every_s=0.5, seed=9)
        answer = at.ask_with(extra)
        if answer.returncode:
            at.refused("deploy", answer, str(at.bed.home / "checkpoints"))
        else:
            at.told.append(" ".join(answer.stdout.split())[-300:])
        at.go_on()
        at.no_replays(f"another {how}")


def two_restores(at: Attack, chance: random.Random) -> None:
    """Run two restores of one query at the same time; the slower one wakes up after a driver has continued from the
    other's checkpoint.
    """
    query, point = chance.choice(("totals", "copies")), at.way(*_FREEZES_AT)
    marker = at.bed.root / "frozen"
    freeze = {
        "STREAMKEEPER_CRASH": point,
        "STREAMKEEPER_CRASH_SIGNAL": "SIGSTOP",
        "STREAMKEEPER_CRASH_ONCE": str(marker),
    }
    command = at.bed.program("snapshot", "restore", f"{JOB}/{query}", by=started_without(at.off))
    with at.ended():
        at.serve()
        at.must(at.run("snapshot", "take", JOB))
        at.more()
        at.kill()
        slow = subprocess.Popen(
            command, env={**at.bed.environment, **freeze}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            wait_for(f"a restore frozen at {point}", marker.with_name(f"frozen-{point}").exists, timeout_s=60)
            at.did.append(f"a restore of {query} frozen at {point}, another one, and a deploy")
            at.must(at.run("snapshot", "restore", f"{JOB}/{query}"))
            at.go_on()
            slow.send_signal(signal.SIGCONT)
            out, err = slow.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                slow.kill()
        at.told.append(" ".join((err or out).split())[:400])
        at.more()
        serving = at.state().serving_instance
        if at.bed.installation.runner.observe(JOB, serving).life is not Life.ALIVE:
            at.damage.append(f"{serving} does not live any more")
        at.kill()
        at.go_on()
        at.no_replays("two restores")
