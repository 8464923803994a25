"""The guides of ``docs/internals/extending.md`` hold: a new kind of part needs changes only in the files that its guide
names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from streamkeeper.checkpoints.log_codec import STATELESS_COMMIT
from streamkeeper.checkpoints.reach import compare, position
from streamkeeper.checkpoints.seeding import seed_beginning, seed_start
from streamkeeper.checkpoints.source_starts import read_start
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.cli import options
from streamkeeper.compatibility import assess
from streamkeeper.compatibility.rule import breaking
from streamkeeper.errors import InvalidInput, Unsupported
from streamkeeper.lifecycle.transition_choice import choose_transitions
from streamkeeper.model.manifests.finding import Finding, Verdict
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.asked_fields import LONGEST_S, SECONDS, Ask, Verb
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.runner_kinds.known_runners import RUNNERS
from streamkeeper.model.runner_kinds.runner_kind import Place, RunnerKind, RunnerVariable
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.contract import Runner
from streamkeeper.sinks.kinds.known_kinds import KINDS
from streamkeeper.sinks.kinds.sink_kind import SinkKind
from streamkeeper.sources import known_sources
from streamkeeper.sources.contract import SourceKind, SourcePosition, SourcePromise, SourceReach
from streamkeeper.stores.contract import Store
from tests.compatibility.manifests import STATEFUL, changed
from tests.lifecycle.test_transition_choice import facts, finding

ROOT = Path(__file__).resolve().parents[2]
GUIDES = (ROOT / "docs/internals/extending.md").read_text()


def test_every_file_that_a_guide_names_is_there() -> None:
    """Every file that a guide names exists."""
    named = set(re.findall(r"`([\w/]+\.py)(?:::\w+)?`", GUIDES))
    missing = [
        name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "plugins/streamkeeper"))
    ]
    assert named
    assert missing == []


def test_a_declared_sink_capability_decides_whether_a_rebuild_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild is refused for a kind of sink that is not declared, and chosen as soon as a declaration states that the
    kind can shadow.
    """
    rebuilt = facts(finding("state-keys-changed", where="operator"), state=True, sink="lake")
    _, refusal = choose_transitions(DeployRequest(job="j"), {"q": rebuilt})
    assert "its lake output cannot be written without readers seeing it" in refusal
    shadowing = SinkKind(name="lake", sink="LakeSink", module="", capabilities=SinkCapabilities(shadows=True))
    monkeypatch.setitem(KINDS, "lake", shadowing)
    ways, refusal = choose_transitions(DeployRequest(job="j"), {"q": rebuilt})
    assert (ways["q"].way, refusal) == (Transition.REBUILD, "")


def sinks_named_in(text: str) -> list[str]:
    """Return the lines that name a sink of jobs, or compare something with the name of a kind of sink."""
    sinks = re.compile(rf"\b({'|'.join(kind.sink for kind in KINDS.values())})\b")
    kinds = re.compile(rf"[\"']({'|'.join(KINDS)})[\"']")
    of_sinks = re.compile("sink|output|capabilit", re.IGNORECASE)
    return [line for line in text.splitlines() if sinks.search(line) or (kinds.search(line) and of_sinks.search(line))]


def test_no_kind_of_sink_is_named_outside_of_sinks() -> None:
    """No package except ``sinks`` names a kind of sink: what the others need about a kind, they look up in its
    declaration.
    """
    package = ROOT / "plugins/streamkeeper"
    others = [
        path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ("sinks", "__init__.py")
    ]
    named = {path.relative_to(package): found for path in others if (found := sinks_named_in(path.read_text()))}
    assert len(others) > 300
    assert named == {}


@pytest.mark.parametrize(
    "line",
    ['if query.sink.kind == "table":', "hint='use FileSink'", 'capabilities_of("foreach")', "output in {'file'}"],
)
def test_code_that_names_a_kind_of_sink_is_found(line: str) -> None:
    """Negative control: a kind of sink is found in a comparison, a hint, a lookup and a set, while a source or a scheme
    of the same name is not.
    """
    assert sinks_named_in(f'if source.kind == "file":\n{line}\nscheme in ("", "file")') == [line]


def test_a_kind_of_source_is_refused_until_its_guarantees_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of source is refused until an entry declares what it promises; the entry alone makes it supported."""
    with pytest.raises(Unsupported, match="source 'pulsar' is not supported"):
        known_sources.promise_of("pulsar")
    promise = SourcePromise(kind="pulsar", replays=True, holds_until="the backlog is cleared")
    monkeypatch.setitem(known_sources._KINDS, "pulsar", SourceKind(name="pulsar", promise=promise))
    assert known_sources.promise_of("pulsar") is promise


class ReadShards(SourcePosition, frozen=True, tag="shards"):
    """A position in a source of this kind: the next number of each shard."""

    numbers: dict[str, int]

    def beginning(self) -> SourcePosition | None:
        return ReadShards({})

    def compare(self, source: str, new: SourcePosition) -> SourceReach | None:
        assert isinstance(new, ReadShards)
        missing = sum(max(0, number - new.numbers.get(shard, 0)) for shard, number in self.numbers.items())
        return SourceReach(source=source, unit="records", missing=missing, ahead=0, total=9, text="")


class Pulsar(SourceKind):
    """A kind of source that only this test declares."""

    def has_offset(self, offset: str) -> bool:
        return offset.startswith('{"shards":')

    def offset_line(self, offset: str) -> str | None:
        return offset

    def position(self, offset: str, start: str | None) -> SourcePosition:
        return ReadShards(json.loads(offset)["shards"])

    def start_in(self, content: bytes) -> str | None:
        return content.removeprefix(b"start ").decode() if content.startswith(b"start ") else None

    def start_content(self, offset: str) -> bytes:
        return b"start " + offset.encode()


def test_a_source_is_compared_and_seeded_by_its_declaration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With only its declaration, checkpoints of a new kind of source can be compared, and seeded at old offsets and at
    the beginning.
    """
    old = tmp_path / "old"
    for folder in ("offsets", "commits", "sources/0"):
        (old / folder).mkdir(parents=True)
    (old / "metadata").write_text('{"id":"0b0e0c38-6a5c-4f0a-8d57-6a2b4f6a1c11"}')
    (old / "sources/0/0").write_text('start {"shards":{"a":1}}')
    for batch, number in enumerate((5, 8)):
        plan = ["v1", '{"batchWatermarkMs":0,"conf":{}}', json.dumps({"shards": {"a": number}}, separators=(",", ":"))]
        (old / f"offsets/{batch}").write_text("\n".join(plan))
        (old / f"commits/{batch}").write_bytes(STATELESS_COMMIT)
    pulsar = Pulsar(name="pulsar")
    with pytest.raises(Unsupported, match="cannot start at"):
        seed_start(LocalTree(old), LocalTree(tmp_path / "none"), 0, query_id="one")
    monkeypatch.setattr(known_sources, "REPLAYED", (*known_sources.REPLAYED, pulsar))
    (reach,) = compare(position(LocalTree(old)), position(LocalTree(old), 0)).sources
    assert (reach.missing, reach.total) == (3, 9)
    seed_start(LocalTree(old), LocalTree(tmp_path / "new"), 0, query_id="one")
    assert read_start(LocalTree(tmp_path / "new"), "0") == '{"shards":{"a":5}}'
    assert seed_beginning(LocalTree(old), LocalTree(tmp_path / "again"), query_id="two")
    assert read_start(LocalTree(tmp_path / "again"), "0") == '{"shards":{"a":1}}'


class JobRun(Place, frozen=True, kw_only=True):
    """The record of where a cluster that only this test declares runs an instance."""

    FILE: ClassVar[str] = "job-run.json"
    run: str


class JobRuns(Runner):
    """A runner that only this test declares, whose cluster chooses the names of its runs."""

    def __init__(self, store: Store, settings: Settings, environ: Mapping[str, str], **_: object) -> None:
        self._store, self._role = store, settings.runner_variables["STREAMKEEPER_EMR_ROLE"]

    def launch(self, spec: LaunchSpec, secrets: dict[str, str]) -> None:
        control = Control(self._store, spec.job, spec.instance)
        control.write_launch(spec)
        control.write_place(JobRun(instance=spec.instance, cluster="emr", run=f"run of {self._role}"))

    def observe(self, job: str, instance: str) -> Liveness:
        run = Control(self._store, job, instance).read_place(JobRun)
        return Liveness(life=Life.ABSENT, why="") if run is None else Liveness(life=Life.UNKNOWN, why=run.run)

    def notify(self, job: str, instance: str) -> None: ...

    def kill(self, job: str, instance: str) -> None: ...


def test_a_runner_is_chosen_and_configured_by_its_declaration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With only its declaration, a new kind of runner is accepted by the settings and by the installation, and its
    records of drivers are read.
    """
    environ = {
        "STREAMKEEPER_HOME": str(tmp_path),
        "STREAMKEEPER_STORE": str(tmp_path / "store"),
        "STREAMKEEPER_CHECKPOINTS": "s3a://bucket/checkpoints",
        "STREAMKEEPER_DRIVERS": "emr",
        "STREAMKEEPER_EMR_ROLE": "ada",
    }
    with pytest.raises(InvalidInput, match="STREAMKEEPER_DRIVERS=emr is not a place for drivers"):
        Installation.from_environment(environ)
    role = RunnerVariable(name="STREAMKEEPER_EMR_ROLE", default="", description="", read=lambda _, value: value)
    kind = RunnerKind(name="emr", title="EMR", runner=f"{__name__}:JobRuns", place=JobRun, variables=(role,))
    monkeypatch.setitem(RUNNERS, "emr", kind)
    installation = Installation.from_environment(environ)
    content = {"bundle": "0" * 64, "entry": "sales.py", "params": {}, "conf": {}, "checkpoints": "s3a://bucket"}
    spec = LaunchSpec(instance="one", job="sales", release="r0001", mode=LaunchMode.STANDBY, runner="emr", **content)
    assert installation.runner.observe("sales", "one").life is Life.ABSENT
    installation.runner.launch(spec, {})
    assert (tmp_path / "store/control/sales/one/job-run.json").is_file()
    assert installation.runner.observe("sales", "one").why == "run of ada"


def test_a_rule_added_to_the_list_decides_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding of a rule that is added to ``RULES`` decides the verdict; without the rule, its finding is not
    reported.
    """

    def spark_is_mine(old: Manifest, new: Manifest) -> Iterator[Finding]:
        if old.spark_version != new.spark_version:
            yield breaking("spark-is-mine", "Spark", "a -> b", "")

    newer = {"q": changed(STATEFUL, spark_version="9.9.9")}
    before = assess.assess({"q": STATEFUL}, newer)
    monkeypatch.setattr(assess, "RULES", (*assess.RULES, spark_is_mine))
    after = assess.assess({"q": STATEFUL}, newer)
    assert "spark-is-mine" not in {each.rule for each in before.queries["q"].findings}
    assert "spark-is-mine" in {each.rule for each in after.queries["q"].findings}
    assert after.queries["q"].verdict is Verdict.SWITCH


class WiderRequest(DeployRequest, frozen=True, kw_only=True):
    hold_s: Annotated[
        float, Ask(title="Hold (s)", help="After this, `it` goes on", unit=SECONDS, verbs=(Verb.DEPLOY,))
    ] = 7.0


def test_a_field_of_a_request_is_an_option_by_its_declaration_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is added to a request becomes an option of the command by its declaration alone, and the request has
    the value that was entered.
    """
    monkeypatch.setattr(options, "DeployRequest", WiderRequest)
    found: list[Any] = []

    @options.takes_request(Verb.DEPLOY)
    def deploy(request: DeployRequest) -> None:
        found.append(request)

    one = typer.Typer()
    one.command()(deploy)
    command: Any = typer.main.get_command(one)
    option = next(each for each in command.params if each.name == "hold_s")
    assert (option.opts, option.help, option.default) == (["--hold-s"], "After this, it goes on", 7.0)
    assert CliRunner().invoke(one, ["sales", "--hold-s", "3"]).exit_code == 0
    assert found == [WiderRequest(job="sales", hold_s=3.0, inherit_params=True, inherit_conf=True)]


@pytest.mark.airflow
def test_a_field_of_a_request_is_in_the_form_by_its_declaration_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is added to a request appears in the deploy form by its declaration alone, with its title,
    description and limits.
    """
    from streamkeeper.model.requests import trigger_forms
    from streamkeeper.orchestration import form

    monkeypatch.setattr(trigger_forms, "DeployRequest", WiderRequest)
    field = form.deploy_form(Path("no-such-folder"))["hold_s"]
    words = {"title": "Hold (s)", "description_md": "After this, `it` goes on"}
    limits = {"exclusiveMinimum": 0, "allOf": [{"maximum": LONGEST_S}]}
    assert (field.value, field.schema) == (7.0, {"type": "number", **limits, **words})
