"""Bugs that can be reintroduced into the real code for the duration of one block: the negative controls of the
simulation.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class Change:
    """A piece of source text of one function or dictionary, and the wrong text that replaces it."""

    module: str
    """The module's name below ``streamkeeper``."""
    function: str
    """``function``, ``Class.method``, or the name of a dictionary of the module."""
    right: str
    wrong: str


@dataclass(frozen=True)
class Bug:
    """A bug of one or more changes. Several are needed where a second check would catch what the first one misses."""

    name: str
    what: str
    """What the code does with this bug, as a sentence."""
    changes: tuple[Change, ...]


_ENDED = "seen.life in (Life.DEAD, Life.ABSENT)"
_UNSEEN = "seen.life in (Life.DEAD, Life.ABSENT, Life.UNKNOWN)"
_DRAINED = Change(
    "lifecycle.draining", "_drain_one", "if seen.life is Life.DEAD:", "if CommandKind.DRAIN in seen.sent:"
)
_ANY_TOPIC = Change(
    "driver.taking_over", "shadow", "source_readers.must_be_the_same(query.name, first, topics)", "None"
)
_ANY_CLAIM = Change("driver.driver_lifetime", "Driver._must_have_the_claim", "== self._claim:", "is not None:")
_NO_POD = "if found is None:"
_DRAIN_UNSEEN = Change("lifecycle.draining", "drain", "life is Life.UNKNOWN", "life is None")

BUGS = (
    Bug(
        "unknown-is-proof",
        "A driver that cannot be observed counts as terminated.",
        (Change("lifecycle.draining", "prove_dead", _ENDED, _UNSEEN), _DRAINED, _DRAIN_UNSEEN),
    ),
    Bug(
        "unknown-is-the-end",
        "An instance that cannot be observed counts as ended when an operation stops it.",
        (Change("lifecycle.draining", "end", _ENDED, _UNSEEN),),
    ),
    Bug(
        "unknown-is-stopped",
        "A stop records the end of a driver that cannot be observed.",
        (Change("lifecycle.stop_steps", "_end", _ENDED, _UNSEEN),),
    ),
    Bug(
        "no-proof",
        "The end of a driver is recorded once it was ordered to drain.",
        (Change("lifecycle.draining", "prove_dead", _ENDED, "True"), _DRAINED),
    ),
    Bug(
        "stale-journal",
        "The gate uses the last known journal while the store does not answer.",
        (Change("driver.gate", "Gate._ask", "clock.sleep(_RETRY_S)", "return self._channel.state"),),
    ),
    Bug(
        "no-question",
        "The gate asks the store only once in five minutes.",
        (Change("driver.gate", "Gate._ask", "max_age_s=_SHARED_S", "max_age_s=300.0"),),
    ),
    Bug(
        "two-owners",
        "A driver is appointed before its predecessor's end is proven.",
        (
            Change("operations.deploys.version_acts", "VersionActs.appoint", "if others:", "if others and False:"),
            Change("lifecycle.draining", "prove_dead", "for owner in observation.state.owners:", "for owner in ():"),
            _DRAINED,
        ),
    ),
    Bug(
        "no-fence",
        "A driver writes without raising its output's fence.",
        (Change("driver.epoch", "open_writer", "writer.raise_fence()", "writer.last_batch()"),),
    ),
    Bug(
        "second-operation",
        "An operation starts beside another open one.",
        (Change("operations.deploys.deploy", "Deploy._start", "if other is None:", "if True:"),),
    ),
    Bug(
        "every-supervisor",
        "A supervisor runs a generation that another one has claimed.",
        (
            Change(
                "runners.supervisor",
                "Supervisor._claim",
                "if record not in self._after_the_outage(self._control.processes):",
                "if False:",
            ),
            _ANY_CLAIM,
        ),
    ),
    Bug(
        "drift-ignored",
        "A candidate runs after an approval that did not name all of its findings.",
        (Change("operations.deploys.approval", "_same_findings", "if came:", "if False:"),),
    ),
    Bug(
        "no-approval",
        "A candidate whose change is opaque runs although nobody has approved it.",
        (Change("lifecycle.approval_steps", "await_answer", "if answer.approved\n", "if True\n"),),
    ),
    Bug(
        "hold-ignored",
        "A prune removes snapshots that an operation still needs.",
        (Change("snapshots.retention", "_decide", "one.held_by]", "one.held_by if False]"),),
    ),
    Bug(
        "young-packs",
        "A prune removes packs at once, although a capture may be about to name them.",
        (Change("snapshots.sweep", "plan_sweep", "free if grace_s == 0 else over", "free"),),
    ),
    Bug(
        "prune-beside-an-operation",
        "A prune removes batches of a version while an operation is open that may return to it.",
        (
            Change(
                "operations.backups.pruning",
                "_versions",
                "state.open_operation is not None or epoch is None or epoch.version == version.version",
                "epoch is None",
            ),
        ),
    ),
    Bug(
        "watch-starts-all",
        "The watch starts a job that a person has stopped meanwhile.",
        (Change("operations.fleet.watch_acts", "start_again", "unless_stopped=True", "unless_stopped=False"),),
    ),
    Bug(
        "endless-fall-back",
        "A fall-back that cannot restore the old checkpoint tries it again without end.",
        (
            Change(
                "operations.deploys.deploy",
                "Deploy._instead",
                "if known.fall_back:",
                "if False:",
            ),
        ),
    ),
    Bug(
        "forgotten-claims",
        "A handoff does not know under which epochs the version that it leaves has written.",
        (Change("model.records.checkpoint_version", "_claims", "known.claim if known is not None else None", "None"),),
    ),
    Bug(
        "older-store",
        "No claim outside of the journal is compared with the journal.",
        (
            Change("operations.jobs.outdated", "find_outdated", "return find_outdated_epochs(", 'return "" and str('),
            Change("driver.epoch", "claim_epoch", "find_newer(known_epoch(state, query.name), seen)", "None"),
            Change("driver.newest_claims", "keep_claim", "leave_claim(", "(lambda *_: None)("),
        ),
    ),
    Bug(
        "restored-without-its-input",
        "A restore goes on although files that it has to read again were deleted after it was announced.",
        (
            Change(
                "operations.jobs.missing_input",
                "must_still_be_there",
                "way, manifests[query]).missing",
                'way, manifests[query]).missing and ""',
            ),
        ),
    ),
    Bug(
        "older-generation",
        "A second supervisor takes the next generation, and the older one claims the output again.",
        (
            Change(
                "runners.supervisor", "Supervisor.run", "generation = 0", "generation = len(self._control.processes())"
            ),
            Change(
                "driver.epoch",
                "claim_epoch",
                "newest.instance == instance and newest.generation > generation",
                "False",
            ),
        ),
    ),
    Bug(
        "cleaner-in-a-drill",
        "A drill deletes the input files that its clone has read.",
        (Change("sources.files", "CLONE_OPTIONS", '"cleanSource": "off"', ""),),
    ),
    Bug(
        "first-batch-again",
        "A query is started in a checkpoint that is older than its record.",
        (
            Change("driver.continuity", "Continuity.check_start", "must_be_there(", "(lambda *_: None)("),
            Change("driver.taking_over", "take_over", "must_be_there(", "(lambda *_: None)("),
        ),
    ),
    Bug(
        "missing-pod-is-the-end",
        "A pod that the API server no longer has counts as ended.",
        (Change("runners.judging_pods", "judge", "if found is None and not recorded and not elsewhere:", _NO_POD),),
    ),
    Bug(
        "silent-node-is-the-end",
        "A pod counts as ended if its node no longer reports, or if its end is overdue.",
        (
            Change(
                "runners.judging_pods",
                "judge",
                'return _unknown(f"{named(pod)} {doubt}")',
                "return Liveness(life=Life.DEAD, why=doubt)",
            ),
        ),
    ),
    Bug(
        "lost-container-is-the-end",
        "A container that its kubelet has lost track of counts as ended.",
        (
            Change(
                "runners.judging_pods",
                "_is_proof",
                "return bool(end.container_id) and end.reason not in _LOST_SIGHT",
                "return True",
            ),
        ),
    ),
    Bug(
        "lost-node-is-the-end",
        "The exit code that YARN gives to a container of a lost node counts as that of its program.",
        (
            Change(
                "runners.yarn_application",
                "_tells_an_end",
                "return code >= 0 or code in _BEYOND_MEMORY",
                "return True",
            ),
        ),
    ),
    Bug(
        "unlisted-is-the-end",
        "A container counts as ended if its NodeManager does not list it, also if that one was started later.",
        (
            Change(
                "runners.yarn_application",
                "_has_outlived",
                "manager.node_started_at(attempt) + _SKEW_MS > attempt.start_time or ",
                "",
            ),
        ),
    ),
    Bug(
        "stated-end-unseen",
        "An operation waits for a candidate whose end a person has stated.",
        (
            Change(
                "operations.deploys.deploy",
                "Deploy._observe",
                "DriverObservation.of(self.installation, state,",
                "DriverObservation(self.installation, self.job,",
            ),
        ),
    ),
    Bug(
        "started-meanwhile",
        "An instance counts as never started although another caller of the operation has started it meanwhile.",
        (Change("operations.deploys.deaths", "make_unclaimable", "return is_barred(", "return bool("),),
    ),
    Bug(
        "claims-of-the-copy",
        "A copy of a version does not know under which epochs that version has written.",
        (Change("model.protocol.output_history", "find_output_loss", "if not own:", "if False:"),),
    ),
    Bug(
        "another-history",
        "A process goes on with a journal whose last known entry was replaced by another one.",
        (Change("registry.journal", "Journal._must_follow", "self._stored(key) != self._last:", "False:"),),
    ),
    Bug(
        "another-claim",
        "A driver runs although the store names another process as the one that runs its generation.",
        (_ANY_CLAIM,),
    ),
    Bug(
        "planned-again",
        "A query is started again from a checkpoint that lacks the plan of a batch that it has run.",
        (Change("driver.continuity", "Continuity.check_start", "if self._admitted is not None and", "if False and"),),
    ),
    Bug(
        "another-topic",
        "A driver continues at the old offsets in a topic that was created again.",
        (Change("driver.taking_over", "take_over", "source_readers.must_be_the_same(name, expected, topics)", "None"),),
    ),
    Bug(
        "approved-for-ever",
        "An approval to continue in a topic that was created again also holds for the next such topic.",
        (Change("driver.taking_over", "_approved_topics", "if newest is None or", "if True or"),),
    ),
    Bug(
        "approved-unseen",
        "An approval to continue in a topic that was created again also holds if that topic is created again.",
        (
            Change(
                "driver.taking_over", "_approved_topics", "return order.approved_topics.get(query, {})", "return {}"
            ),
            Change("operations.deploys.approval", "_same_findings", "recreated(way.approved_topics,", "recreated({},"),
        ),
    ),
    Bug(
        "another-topic-unasked",
        "A handoff or a restore continues in a topic that was created again, and no person is asked.",
        (
            Change("lifecycle.steps", "_must_be_approved", " or way.other_topics", ""),
            Change(
                "lifecycle.transition_choice",
                "_handoff",
                "any(is_carried_over(finding, keeps_state=_keeps_state(facts)) for finding in facts.judged.findings)",
                "False",
            ),
        ),
    ),
    Bug(
        "claimed-without-an-answer",
        "After a takeover for which the brokers did not answer, a fall-back continues in any topic.",
        (
            Change("driver.taking_over", "take_over", "topics={**expected, **topics}", "topics=topics"),
            Change(
                "driver.taking_over",
                "_approved_topics",
                "state.offset_topics(query, newest.version)",
                "state.version(query, newest.version).topics",
            ),
        ),
    ),
    Bug(
        "another-topic-at-a-restart",
        "A query that its driver starts again continues at the old offsets in a topic that was created again.",
        (Change("driver.queries", "ServedQuery.start", "if self.topics and not self._compared:", "if False:"),),
    ),
    Bug(
        "rebuilt-from-another-topic",
        "A rebuild is allowed although the topic with the first rows of the output was deleted.",
        (
            Change("operations.deploys.deploy_acts", "DeployActs._gather", "first_topics=first_topics(state),", ""),
            _ANY_TOPIC,
        ),
    ),
    Bug(
        "uncut-files",
        "Readers of files still see the batches after the one at which a version was left.",
        (Change("model.records.job_state", "JobState.segments", "last=heir.parent_batch", "last=None"),),
    ),
    Bug(
        "log-with-a-gap",
        "A batch that Spark lists after a gap in the log of an older copy counts as the output's newest.",
        (
            Change(
                "sinks.sink_log",
                "newest_batch",
                "missing - 1 if missing is not None else entries.newest",
                "entries.newest",
            ),
        ),
    ),
    Bug(
        "files-read-again",
        "A new version takes no file of the old one for read.",
        (
            Change(
                "checkpoints.seeding",
                "seed",
                "copied |= {path: path for path in source_files(Listed(source), batch)}",
                "pass",
            ),
        ),
    ),
    Bug(
        "older-state",
        "A snapshot has the state from before its batch.",
        (Change("checkpoints.closed_set", "_state", "state.of(store, batch)", "state.of(store, batch - 1)"),),
    ),
)


@contextmanager
def put_back(name: str) -> Iterator[Bug]:
    """Reintroduce a bug for the duration of this block. Raises ValueError unless the real code contains each right text
    exactly once.
    """
    bug = next(each for each in BUGS if each.name == name)
    with ExitStack() as stack:
        for change in bug.changes:
            _put(stack, change)
        yield bug


def _put(stack: ExitStack, change: Change) -> None:
    module = importlib.import_module(f"streamkeeper.{change.module}")
    owner: Any = module
    *path, function = change.function.split(".")
    for part in path:
        owner = getattr(owner, part)
    real = getattr(owner, function)
    source = textwrap.dedent(_assignment(module, function) if type(real) is dict else inspect.getsource(real))
    if source.count(change.right) != 1:
        found = source.count(change.right)
        raise ValueError(f"{change.module}.{change.function} has the text {change.right!r} {found} times")
    made: dict[str, Any] = {}
    exec(compile(source.replace(change.right, change.wrong), f"<{function}>", "exec"), vars(module), made)
    wrong = made[function]
    if type(real) is dict:
        stack.enter_context(patch.dict(real, wrong, clear=True))
        return
    stack.enter_context(patch.object(owner, function, wrong))
    if owner is module:
        for other, attribute in _users(real):
            stack.enter_context(patch.object(other, attribute, wrong))
        for table, key in _tables(real):
            stack.enter_context(patch.dict(table, {key: wrong}))


def _assignment(module: ModuleType, name: str) -> str:
    """Return the source of the module's statement that creates one of its dictionaries."""
    source = inspect.getsource(module)
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == name for to in statement.targets
        ):
            return ast.get_source_segment(source, statement) or ""
    return ""


def _users(real: Any) -> list[tuple[Any, str]]:
    """Return the modules that imported the function, each with the function's name in that module."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("streamkeeper.")]
    return [(module, name) for module in loaded for name, value in vars(module).items() if value is real]


def _tables(real: Any) -> list[tuple[dict[Any, Any], Any]]:
    """Return the dictionaries of modules that contain the function, each with the function's key."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("streamkeeper.")]
    tables = [value for module in loaded for value in vars(module).values() if type(value) is dict]
    return [(table, key) for table in tables for key, value in table.items() if value is real]
