"""The bad inputs: what each one is, and how it is passed at every door that could receive it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from conformance.bad_inputs.stage import Stage
from harness.forms import EVENT_COPY

DEPLOY, ROLLBACK, STOP, START = "streaming_deploy", "streaming_rollback", "streaming_stop", "streaming_start"
RECOVER, BACKUP, DRILL, PRUNE = "streaming_recover", "streaming_backup", "streaming_drill", "streaming_prune"
SERIES = f"{EVENT_COPY}/copy"
REASON = "a bad input"
_NO_JSON = "it takes NaN, which is no JSON, by REST, stores null, and its task finds that null is no number"
_NO_UNICODE = "its API answers HTTP 500 to a text that is not Unicode"
_LONG = "a" * 300
_IMPORT = b"from streamkeeper import Param, streaming_job\n"
_BODY = b"\ndef made(spark, params):\n    yield\n"

JOB_FILES: Mapping[str, bytes] = {
    "bad_syntax": b"def bad_syntax(:\n",
    "bad_import": b"import no_such_module\n",
    "bad_exit": b"import sys\nsys.exit(3)\n",
    "bad_loud": b"raise ValueError('first line\\nsecond line')\n",
    "bad_deep": b"def f():\n    f()\nf()\n",
    "bad_bytes": b"\x00\xff\xfe\x00",
    "bad_latin": "name = '\xe9'\n".encode("latin-1"),
    "bad_empty": b"",
    "bad_name": b"%b@streaming_job(name='other')%b" % (_IMPORT, _BODY),
    "bad_twice": b"%b@streaming_job(name='bad_twice')%b@streaming_job(name='bad_twice')%b" % (_IMPORT, _BODY, _BODY),
    "bad_default": b"%b@streaming_job(name='bad_default', params={'n': Param(int, default='x')})%b" % (_IMPORT, _BODY),
}
"""Files below the jobs root that do not define a job of that name."""

Around = Callable[[Stage], Any]


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """One bad input. ``cli``: the words of a command; ``rest``: the DAG and the run's conf, or a whole body as bytes;
    ``around``: a context that is active while it is sent; ``extra``: variables of the command, None for one that is not
    set; ``airflows``: why Airflow 3.3.2 itself fails on it, before any code of Streamkeeper runs.
    """

    name: str
    cli: tuple[str, ...] = ()
    rest: tuple[str, Any] | None = None
    extra: Mapping[str, str | None] = {}
    around: Around | None = None
    airflows: str = ""


def _deploy(name: str, job: str = EVENT_COPY, *, cli: bool = True, rest: bool = True, **fields: Any) -> Bad:
    words = ["deploy"]
    for key, value in fields.items():
        option = f"--{key.replace('_', '-')}"
        if key == "conf":
            words += [word for each in value.items() for word in (option, "=".join(each))]
        elif isinstance(value, bool):
            words += [option] if value else []
        else:
            words += [option, json.dumps(value) if key == "params" else str(value)]
    typed = (*words, "--reason", REASON, "--", job)
    conf = {"job": job, "reason": REASON, **fields}
    return Bad(name=name, cli=typed if cli else (), rest=(DEPLOY, conf) if rest else None)


def _names() -> Iterator[Bad]:
    yield _deploy("a job that is not there", "nosuch")
    yield _deploy("a job's name mistyped", "event_cpoy")
    yield _deploy("a path out of the jobs folder", "../../etc/passwd")
    yield _deploy("an absolute path", "/etc/passwd")
    yield _deploy("a name with a newline", "event\ncopy")
    yield _deploy("a name with a null character", "event\0copy", cli=False)
    yield _deploy("a name of emoji", "\U0001f600")
    yield _deploy("a name of 300 characters", _LONG)
    yield _deploy("a name that begins with a dash", "-rf")
    yield _deploy("an empty name", "")
    yield _deploy("a name of blanks", "   ")
    yield _deploy("the file's name instead of the job's", "event_copy.py")
    yield _deploy("a link out of the jobs folder", "bad_link")
    yield _deploy("a link to nowhere", "bad_nowhere")
    yield _deploy("a folder called like a job's file", "bad_folder")
    for job in JOB_FILES:
        yield _deploy(f"a file that is no job: {job}", job)


def _values(stage: Stage) -> Iterator[Bad]:
    given = stage.params

    def params(name: str, *, cli: bool = True, rest: bool = True, **changed: Any) -> Bad:
        return _deploy(name, params={**given, **changed}, cli=cli, rest=rest)

    yield params("a param of the wrong type", files_per_trigger="many")
    yield params("a number beyond 64 bits", files_per_trigger=10**30)
    yield params("an unknown param", colour="red")
    yield params("a param mistyped", ouput="/data")
    yield _deploy("a param that is missing", params={"input": given["input"]})
    yield params("null for a param that is needed", output=None)
    yield params("a param of nested JSON", output={"a": [1, {"b": 2}]})
    yield params("not a number", files_per_trigger=float("nan"))
    yield replace(params("half of a surrogate pair", output="\ud800"), airflows=_NO_UNICODE)
    yield params("a param of 100 kB", colour="x" * 100_000)
    yield params("a param of 10 MB", cli=False, colour="x" * 10_000_000)
    yield params("a param that is there, of 10 MB", cli=False, input="x" * 10_000_000)
    for reference in (
        "secret://env/NOSUCH",
        "secret://env/AIRFLOW__CORE__FERNET_KEY",
        "secret://vault/x",
        "secret://env/",
    ):
        yield params(f"a secret that is not had: {reference}", output=reference)
    yield _deploy("params that are a list", params=[1])
    yield Bad(name="params that are no JSON", cli=("deploy", EVENT_COPY, "--params", "{input: 1}"))
    yield Bad(name="empty params on the command line", cli=("deploy", EVENT_COPY, "--params", ""))
    for key, value in {
        "spark.driver.extraJavaOptions": "-XX:OnOutOfMemoryError=id",
        "spark.sql.streaming.checkpointLocation": "/data",
        "spark.sql.extensions": "a.B",
        "spark.sql.catalog.mine": "a.B",
        "spark.sql.streaming.stateStore.providerClass": "a.B",
        "spark.sql.shuffle.partitions": "many",
        "spark.driver.memory": "plenty",
        "spark.master": "yarn",
        "no.spark.conf": "1",
    }.items():
        yield _deploy(f"a conf: {key}={value}", conf={key: value})
    yield Bad(name="a conf without a value", cli=("deploy", EVENT_COPY, "--conf", "spark.sql.shuffle.partitions"))
    yield Bad(name="an empty conf", cli=("deploy", EVENT_COPY, "--conf", ""))


def _options() -> Iterator[Bad]:
    yield _deploy("an unknown strategy", strategy="nosuch")
    yield _deploy("an empty strategy", strategy="")
    yield _deploy("an unknown release", release="r9999")
    yield _deploy("no release's name", release="latest")
    yield _deploy("another job's release", "pushed", release="r0002")
    yield _deploy("a release with params of somebody's own", release="r0002", params={"input": "/x"})
    yield _deploy("revive what was not forgotten", revive=True)
    yield _deploy("a negative deadline", drain_s=-1)
    yield replace(_deploy("a deadline that is no number", approve_s=float("nan")), airflows=_NO_JSON)
    yield _deploy("an endless deadline", approve_s=float("inf"))
    yield _deploy("a deadline beyond any calendar", approve_s=1e300)
    yield _deploy("a share above one", most_missing=2)
    yield replace(_deploy("a share that is no number", most_missing=float("nan")), airflows=_NO_JSON)
    yield _deploy("probation of a part of a batch", probation_batches=1.5)
    yield _deploy("an answer to open operations that there is not", on_open="nosuch")
    yield Bad(name="a difference without a dry run", cli=("deploy", EVENT_COPY, "--diff"))
    yield Bad(name="an unknown option", cli=("deploy", EVENT_COPY, "--dryrun"))
    yield Bad(name="an unknown command", cli=("deplyo", EVENT_COPY))
    yield Bad(name="a command without what it needs", cli=("deploy",))
    yield Bad(name="a field mistyped", rest=(DEPLOY, {"job": EVENT_COPY, "reason": REASON, "dryrun": True}))
    yield Bad(name="a reason that is missing", cli=("stop", EVENT_COPY), rest=(STOP, {"job": EVENT_COPY}))
    yield Bad(name="conf that is no object", rest=(DEPLOY, [1]))
    yield Bad(name="a body that is no JSON", rest=(DEPLOY, b"{"))
    yield Bad(name="a DAG that is not there", rest=("streaming_nosuch", {"job": EVENT_COPY}))


def _rollback(name: str, job: str, release: str = "") -> Bad:
    words = ("rollback", job, "--reason", REASON, *(("--release", release) if release else ()))
    conf = {"job": job, "reason": REASON, **({"release": release} if release else {})}
    return Bad(name=name, cli=words, rest=(ROLLBACK, conf))


def _of_a_job(verb: str, dag: str, name: str, job: str, **more: str) -> Bad:
    words = tuple(word for key, value in more.items() for word in (f"--{key}", value))
    return Bad(
        name=name, cli=(verb, job, "--reason", REASON, *words), rest=(dag, {"job": job, "reason": REASON, **more})
    )


def _operations(stage: Stage) -> Iterator[Bad]:
    yield _rollback("roll back to what serves", EVENT_COPY, stage.release)
    yield _rollback("roll back to a release that is not there", EVENT_COPY, "r9999")
    yield _rollback("roll back to no release's name", EVENT_COPY, "yesterday")
    yield _rollback("roll back an unknown job", "nosuch")
    yield _rollback("roll back what never served", "pushed")
    yield _of_a_job("stop", STOP, "stop an unknown job", "nosuch")
    yield _of_a_job("stop", STOP, "stop what never served", "pushed")
    yield _of_a_job("start", START, "start an unknown job", "nosuch")
    yield _of_a_job("start", START, "start what never served", "pushed")
    yield Bad(name="forget an unknown job", cli=("forget", "nosuch", "--reason", REASON))
    yield Bad(name="forget what serves", cli=("forget", EVENT_COPY, "--reason", REASON))
    recover = ("recover", RECOVER)
    yield _of_a_job(*recover, "recover an unknown job", "nosuch")
    yield _of_a_job(*recover, "recover what never served", "pushed", action="restart")
    yield _of_a_job(*recover, "an unknown action", EVENT_COPY, action="nosuch")
    yield _of_a_job(*recover, "restore an unknown query", EVENT_COPY, action="restore", query="nosuch")
    yield Bad(
        name="restore from a snapshot that is not there",
        cli=("recover", EVENT_COPY, "--action", "restore", "--query", "copy", "--snapshot", "copy=s9999"),
        rest=(RECOVER, {"job": EVENT_COPY, "action": "restore", "query": "copy", "snapshot": "s9999"}),
    )
    yield Bad(
        name="a snapshot without its query", cli=("recover", EVENT_COPY, "--action", "restore", "--snapshot", "s0001")
    )
    yield Bad(name="a loss accepted without a reason", cli=("recover", EVENT_COPY, "--accept-loss"))
    answer = ("--reason", REASON)
    yield Bad(name="approve what is not there", cli=("approve", EVENT_COPY, "nosuch", *answer))
    yield Bad(name="approve what has ended", cli=("approve", EVENT_COPY, stage.operation, *answer))
    yield Bad(name="approve a path", cli=("approve", EVENT_COPY, "../../x", *answer))
    yield Bad(name="decline for an unknown job", cli=("decline", "nosuch", "op", *answer))
    yield Bad(name="an empty operation", cli=("approve", EVENT_COPY, "", *answer))
    yield Bad(name="a question that nobody asks", cli=("question", EVENT_COPY, stage.operation))
    for verb in ("status", "history", "logs"):
        yield Bad(name=f"{verb} of an unknown job", cli=(verb, "nosuch"))
    yield Bad(name="incidents of an unknown job", cli=("incidents", "nosuch"))
    yield Bad(name="the log of an unknown driver", cli=("logs", EVENT_COPY, "--instance", "nosuch"))
    yield Bad(name="a driver's name that is a path", cli=("logs", EVENT_COPY, "--instance", "../../x"))
    yield Bad(name="a negative number of entries", cli=("history", EVENT_COPY, "--limit", "-1"))
    yield Bad(name="metrics at no address", cli=("metrics", "--listen", "nowhere"))
    yield Bad(name="metrics at a port that there is not", cli=("metrics", "--listen", "127.0.0.1:99999"))
    yield Bad(name="an installation's id that is none", cli=("home", "moved", "--id", "nosuch", "--reason", REASON))


def _snapshots(stage: Stage) -> Iterator[Bad]:
    def asked(name: str, *words: str) -> Bad:
        return Bad(name=name, cli=("snapshot", *words))

    yield asked("back up an unknown job", "take", "nosuch")
    yield Bad(name="back up an unknown job by Airflow", rest=(BACKUP, {"job": "nosuch"}))
    yield asked("back up an unknown query", "take", f"{EVENT_COPY}/nosuch")
    yield asked("back up a path", "take", "../../etc")
    yield asked("back up a batch that is not there", "take", SERIES, "--batch", "99999")
    yield asked("back up a negative batch", "take", SERIES, "--batch", "-1")
    yield asked("back up a directory that is no checkpoint", "take", "--checkpoint", str(stage.places.jobs))
    yield asked("list an unknown job's snapshots", "list", "nosuch")
    for name in ("s9999", "7", "s"):
        yield asked(f"a snapshot that is not there: {name!r}", "restore", SERIES, "--id", name, "--dry-run")
    yield asked("another job's snapshot", "restore", "pushed/copy", "--id", "s0001")
    yield asked("a time that is none", "restore", SERIES, "--at", "yesterday", "--dry-run")
    yield asked("a time before any snapshot", "restore", SERIES, "--at", "2001-01-01T00:00:00Z", "--dry-run")
    yield asked("two choices of one snapshot", "restore", SERIES, "--id", "s0001", "--batch", "0", "--dry-run")
    yield asked("restore under what serves", "restore", SERIES)
    yield asked("restore into what is there", "restore", SERIES, "--to", str(stage.places.jobs))
    yield asked("restore into a URL", "restore", SERIES, "--to", "s3://bucket/x")
    yield asked("pin without a reason", "pin", SERIES, "s0001")
    yield asked("pin what is not there", "pin", SERIES, "s9999", "--reason", REASON)
    yield asked("verify what is not there", "verify", SERIES, "--id", "s9999")
    yield asked("drill for a negative time", "drill", SERIES, "--timeout", "-1")
    yield asked("drill with code that is not there", "drill", SERIES, "--job-file", "/nosuch.py:x")
    yield Bad(name="drill a snapshot without its query", rest=(DRILL, {"job": EVENT_COPY, "snapshot": "s0001"}))
    yield Bad(name="drill an unknown job", rest=(DRILL, {"job": "nosuch"}))
    yield asked("export into what is there", "export", SERIES, "--to", str(stage.places.jobs))
    for grace in ("-1", "nan", "x"):
        yield Bad(name=f"a grace of {grace}", cli=("prune", "--grace", grace, "--dry-run"))
    yield Bad(name="a negative grace by Airflow", rest=(PRUNE, {"grace_s": -1}))
    for keep in ("last=-1", "weekly", "last=many", "nosuch=3"):
        yield Bad(
            name=f"a retention of {keep}", cli=("prune", "--keep", keep, "--dry-run"), rest=(PRUNE, {"keep": keep})
        )
    yield Bad(name="prune an unknown job", cli=("prune", "nosuch"), rest=(PRUNE, {"job": "nosuch"}))


def _files(stage: Stage) -> Iterator[Bad]:
    version = stage.places.checkpoints / EVENT_COPY / "copy"
    spoilt = stage.places.root / "spoilt"
    job = f"{stage.places.jobs / EVENT_COPY}.py:{EVENT_COPY}"
    for verb in ("offsets", "fsck"):
        yield Bad(name=f"{verb} of nothing", cli=(verb, "/nosuch"))
        yield Bad(name=f"{verb} of a file", cli=(verb, "/etc/hostname"))
        yield Bad(name=f"{verb} of no checkpoint", cli=(verb, str(stage.places.jobs)))
        yield Bad(
            name=f"{verb} of an empty offsets file", cli=(verb, str(spoilt)), around=_empty_offsets(version, spoilt)
        )
    yield Bad(
        name="back up a checkpoint with an empty offsets file",
        cli=("snapshot", "take", "--checkpoint", str(spoilt), "--store", f"file://{stage.places.home}/store"),
        around=_empty_offsets(version, spoilt),
    )
    yield Bad(name="check without a candidate", cli=("check", "--job", EVENT_COPY))
    yield Bad(name="check a file that is not there", cli=("check", "--job", EVENT_COPY, "--candidate", "/nosuch.py:x"))
    yield Bad(
        name="check a file without a job's name",
        cli=("check", "--job", EVENT_COPY, "--candidate", job.partition(":")[0]),
    )
    yield Bad(name="check against an unknown job", cli=("check", "--job", "nosuch", "--candidate", job))
    yield Bad(name="check requests that are not there", cli=("check", "--batch", "/nosuch.jsonl"))
    yield Bad(name="describe a job that is not there", cli=("describe", "/nosuch.py:x"))
    journal = stage.places.home / "store/registry/spoilt/journal/0000000001.json"
    bundle = next((stage.places.home / "store/registry/spoilt/bundles").glob("*.zip"))
    for what, text in {"empty": b"", "cut off": b'{"', "not JSON": b"\x00\xff", "another": b'{"number": 7}'}.items():
        broken = _written(journal, text)
        yield Bad(name=f"a journal entry that is {what}: status", cli=("status", "spoilt"), around=broken)
        yield Bad(
            name=f"a journal entry that is {what}: deploy",
            cli=("deploy", "spoilt", "--reason", REASON),
            rest=(DEPLOY, {"job": "spoilt", "reason": REASON}) if what == "cut off" else None,
            around=broken,
        )
    words = ("deploy", "spoilt", "--release", "r0001", "--reason", REASON)
    conf = {"job": "spoilt", "release": "r0001", "reason": REASON}
    yield Bad(name="a release whose bundle is damaged", cli=words, rest=(DEPLOY, conf), around=_written(bundle, b"PK"))
    yield Bad(name="a release whose bundle is gone", cli=words, rest=(DEPLOY, conf), around=_written(bundle, None))


def _settings(stage: Stage) -> Iterator[Bad]:
    jobs = ("deploy", EVENT_COPY, "--reason", REASON)

    def set_to(name: str, around: Around | None = None, **variables: str | None) -> Bad:
        extra = {key if key.startswith("AWS") else f"STREAMKEEPER_{key}": value for key, value in variables.items()}
        return Bad(name=name, cli=jobs, extra=extra, around=around)

    here = stage.places.root
    yield set_to("no home", HOME=None)
    yield set_to("an empty home", HOME="")
    yield set_to("a relative home", HOME="home")
    yield set_to("a home with a tilde", HOME="~/home")
    yield set_to("a home that is a URL", HOME="s3://bucket/home")
    yield set_to("a home that is a file", HOME="/etc/hostname")
    yield set_to("a home below a file", HOME="/etc/hostname/home")
    yield set_to("a home mistyped", HOEM=str(here / "home"), HOME=None)
    yield set_to("a store of an unknown kind", STORE="ftp://host/store")
    yield set_to("a store at a file", STORE="file:///etc/hostname")
    yield set_to("a store in no bucket", STORE="s3://")
    yield set_to("a bucket that is not there", STORE="s3://no-such-bucket/prefix")
    yield set_to("a bucket's name that is none", STORE="s3://Not_A_Bucket!/prefix")
    yield set_to("wrong credentials", STORE=f"s3://{stage.bucket}/x", AWS_SECRET_ACCESS_KEY="wrong")
    yield set_to("no credentials", STORE=f"s3://{stage.bucket}/x", AWS_SECRET_ACCESS_KEY=None, AWS_ACCESS_KEY_ID=None)
    yield set_to("a store that does not answer", STORE=f"s3://{stage.bucket}/x", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    yield set_to("an endpoint that is no URL", STORE=f"s3://{stage.bucket}/x", AWS_ENDPOINT_URL="nowhere")
    yield set_to("a jobs folder that is not there", JOBS=str(here / "nowhere"))
    yield set_to("a jobs folder that is a file", JOBS="/etc/hostname")
    yield set_to("checkpoints in a place of an unknown kind", CHECKPOINTS="gs://bucket/x")
    yield set_to("a retention of days that is negative", ENDED_DAYS="-1d")
    yield set_to("approvers who are nobody", APPROVERS=",")
    yield set_to("eyes that are neither two nor four", FOUR_EYES="perhaps")
    yield set_to("confs that are no names", CONFS="*")
    full = here / "full"
    given = ("--params", json.dumps(stage.params))
    extra = {"STREAMKEEPER_HOME": str(full)}
    yield Bad(name="a full disk: deploy", cli=(*jobs, *given), extra=extra, around=_full_disk(full))
    yield Bad(
        name="a full disk: push", cli=("release", "push", EVENT_COPY, *given), extra=extra, around=_full_disk(full)
    )


def bad_inputs(stage: Stage) -> list[Bad]:
    """Yield all bad inputs; the files that some of them need exist afterwards."""
    for name, text in JOB_FILES.items():
        (stage.places.jobs / f"{name}.py").write_bytes(text)
    (stage.places.jobs / "bad_link.py").symlink_to("/etc/hosts")
    (stage.places.jobs / "bad_nowhere.py").symlink_to("/nosuch")
    (stage.places.jobs / "bad_folder.py").mkdir()
    with_stage = (_values, _operations, _snapshots, _files, _settings)
    return [*_names(), *_options(), *(each for part in with_stage for each in part(stage))]


def _written(file: Path, text: bytes | None) -> Around:
    @contextmanager
    def around(_stage: Stage) -> Iterator[None]:
        kept = file.with_name(f"{file.name}.kept")
        file.rename(kept)
        if text is not None:
            file.write_bytes(text)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            kept.rename(file)

    return around


def _empty_offsets(version: Path, spoilt: Path) -> Around:
    @contextmanager
    def around(_stage: Stage) -> Iterator[None]:
        newest = sorted(version.iterdir())[-1]
        shutil.copytree(newest, spoilt)
        last = max((spoilt / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
        last.write_bytes(b"")
        (spoilt / "offsets" / f".{last.name}.crc").unlink(missing_ok=True)
        try:
            yield
        finally:
            shutil.rmtree(spoilt)

    return around


def _full_disk(folder: Path) -> Around:
    @contextmanager
    def around(stage: Stage) -> Iterator[None]:
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=True)
        try:
            stage.by_command(("release", "push", "nosuch"), {"STREAMKEEPER_HOME": str(folder)})  # makes the home
            room = os.statvfs(folder)
            (folder / "ballast").write_bytes(b"x" * (room.f_bavail * room.f_frsize))
            yield
        finally:
            subprocess.run(["umount", str(folder)], check=True)
            folder.rmdir()

    return around
