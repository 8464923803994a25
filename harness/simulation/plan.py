"""Draws a plan from a seed: requests and faults, with the pauses between them. A plan from which some moves were
removed is a valid plan, too.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

import msgspec

from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.requests.diagnosis import RecoveryAction
from streamkeeper.model.requests.request import Handover
from streamkeeper.model.runner_kinds.kubernetes_kind import KUBERNETES
from streamkeeper.model.runner_kinds.yarn_kind import YARN
from streamkeeper.operations.deploys.deploy import OnOpen

REQUESTS = {
    "deploy": 6,
    "rollback": 2,
    "stop": 1,
    "start": 1,
    "recover": 1,
    "backup": 2,
    "prune": 2,
    "drill": 1,
    "answer": 3,
    "repeat": 2,
}
"""Request -> how often it is drawn.

``recover``: a restart, a restore or a rebuild. ``answer``: a person answers the next approval question, sometimes late.
``repeat``: an earlier request is made a second time, as by a task that runs twice.
"""
_THEMES: dict[str, dict[str, int]] = {
    "anything": {},
    "cutovers": {"deploy": 20, "rollback": 5, "freeze": 8, "kill": 8, "boot": 3},
    "approvals": {"deploy": 14, "answer": 12, "repeat": 2, "drift": 12},
    "care": {"deploy": 6, "rollback": 4, "recover": 4, "backup": 16, "prune": 12, "drill": 6, "suspend": 4},
    "stops": {"deploy": 3, "stop": 10, "start": 6, "kill": 12, "boot": 4},
}
"""Theme of a plan -> the weights of the kinds that the theme concerns, which replace the drawn ones."""
_DAMAGES = {
    "restores": {"deploy": 6, "backup": 14, "recover": 8, "stop": 3, "prune": 4, "damage": 12, "kill": 4},
    "rebuilds": {"deploy": 14, "rollback": 6, "recover": 4, "backup": 4, "damage": 2, "kill": 6, "freeze": 4},
}
"""Themes about restoring and rebuilding, which two of seven seeds draw. Only they contain ``damage``."""
_LIVING = {
    "handovers": {
        "deploy": 16,
        "rollback": 6,
        "answer": 6,
        "prune": 4,
        "kill": 1,
        "boot": 0,
        "suspend": 0,
        "caller": 2,
    },
    "cleaned": {"deploy": 8, "rollback": 4, "backup": 10, "drill": 10, "prune": 4, "kill": 2, "boot": 1},
}
"""Themes about drivers that are running when they are replaced or copied, which one of seven seeds draws. In
``cleaned`` the job deletes the files that it has read.
"""


class OutputKind(Enum):
    """The kind of output that the job writes to."""

    TABLE = "table"
    FILES = "files"
    FUNCTION = "function"


_OUTPUTS = (*(OutputKind.FILES, OutputKind.TABLE) * 2, *(OutputKind.FUNCTION, OutputKind.TABLE) * 2)
"""The kinds of output, which successive seeds use in turn."""
_FROM_FILES, _STATEFUL = 0.4, 0.4
"""The share of plans whose job reads files, and the share of plans whose query keeps state."""
_IN_CLUSTERS = (1, 4, 6)
_ON_YARN = 0
_BY_SEVENTH = {3: _LIVING, 4: _DAMAGES, 5: _DAMAGES}
_COPIES = ("older-store", "older-checkpoint", "older-output", "lost-output")
_WITHOUT_COPIES = 0.6
"""The share of plans in which no older copy is put back."""
_EMPHASIS = (0, 1, 1, 5)
_STRATEGIES = {"auto": 4, "resume": 1, "handoff": 2, "rebuild": 2}
_REBUILDS = {"auto": 1, "resume": 0, "handoff": 3, "rebuild": 6}
"""Strategy of a deploy -> how often it is drawn; in the theme ``rebuilds``, most deploys start a new checkpoint
version.
"""
FAULTS = {
    "kill": 4,
    "freeze": 2,
    "blind": 2,
    "caller": 4,
    "slow": 2,
    "boot": 2,
    "older-store": 1,
    "older-checkpoint": 1,
    "older-output": 1,
    "lost-output": 1,
    "suspend": 1,
    "drift": 1,
    "damage": 0,
}
"""Fault -> how often it is drawn.

``kill``: a supervisor, a driver or a JVM is killed. ``caller``: a process that carries out a request, or the watch, is
killed. ``freeze``: one of all these processes is frozen. ``blind``: a driver or a supervisor cannot reach the store.
``slow``: writes to the output take long. ``boot``: a machine restarts. ``suspend``: both machines are suspended for
days. ``drift``: the check finds one more unknown change from that time on. ``older-store``, ``older-checkpoint`` and
``older-output``: the store, all checkpoints or the output are replaced by a copy from before an earlier move.
``lost-output``: the output is deleted. ``damage``: a file of the current checkpoint, or all of it, is deleted or
truncated.
"""
INPUT_FAULTS = ("removed-input", "moved-input")
"""Faults of a job that reads files. ``removed-input``: files whose batches are committed are deleted. ``moved-input``:
files whose batches are not committed, and all that arrive, are elsewhere for a while.
"""
TOPIC_FAULTS = ("dropped-records",)
"""Faults of a job that reads a topic. ``dropped-records``: records whose batches are committed are dropped."""
STRANGE_FAULTS = ("late-input", "recreated-topic")
"""Faults that only one in twelve plans contains. ``late-input``: files arrive after later ones, some with an old
modification time. ``recreated-topic``: the topic is deleted and recreated, after which people make up to two requests.
"""
_LATE_FILES, _TOPIC_AGAIN = STRANGE_FAULTS
_STRANGE_INPUT = 5
"""Seeds with this remainder modulo twelve contain one of these faults."""
_NODE_FAULTS = {"node-cut": 4, "node-boot": 2}
CLUSTER_FAULTS = {
    LOCAL: {},
    KUBERNETES: _NODE_FAULTS | {"pod-deleted": 2, "pod-forced": 1, "pod-lost": 1},
    YARN: _NODE_FAULTS | {"manager-restart": 2, "application-killed": 2, "application-forgotten": 1},
}
"""Faults of each kind of cluster.

``node-cut``: a node reaches neither its cluster nor, in half of the cases, the store. ``node-boot``: a node restarts,
and its kubelet may lose the record of how its containers terminated. ``pod-deleted``: a pod is deleted, as by the drain
of a node. ``pod-forced``: a pod and its finalizer are removed at once, and its end can no longer be proven.
``pod-lost``: a kubelet reports that it cannot find a container, which keeps running. ``manager-restart``: a NodeManager
restarts, and has no record of the containers that keep running. ``application-killed``: a person kills an application,
which counts as terminated at once. ``application-forgotten``: the ResourceManager has no record of an application that
is running.
"""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One request or fault."""

    pause_s: float
    """The virtual seconds between the previous move and this one."""
    kind: str
    """A key of REQUESTS or FAULTS."""
    which: float
    """From 0 to 1: which of the processes, requests or copies that exist at that time."""
    seconds: float = 0.0
    """How long the fault lasts."""
    machine: str = "m1"
    """The machine that makes the request, or that restarts."""
    request: dict[str, Any] = {}
    """The parameters of the request: fields of a deploy, of a recovery, or of an answer."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that can be replayed."""

    seed: int
    """The seed, which also determines how long each step takes."""
    output: OutputKind
    """The kind of output that the job writes to."""
    files: bool
    """Whether the job reads files; else it reads a topic."""
    cleaner: bool = False
    """Whether the job deletes the files that it has read."""
    stateful: bool
    """Whether the job's query keeps state."""
    drivers: str = LOCAL
    """Where the job's drivers run: LOCAL, on the machines of their callers; KUBERNETES or YARN."""
    lost: float
    """The share of calls to the store that fail, half of them after they have taken effect."""
    unseen: float
    """The share of observations of a driver that return nothing."""
    watches: tuple[str, ...] = ()
    """The machines on which the watch runs."""
    moves: tuple[Move, ...]


class _Weights:
    """How often each kind of move is drawn in one plan: some kinds never and some often, so that plans differ."""

    def __init__(self, chance: random.Random, seed: int) -> None:
        themes = _BY_SEVENTH.get(seed % 7, _THEMES)
        self.theme = theme = chance.choice(list(themes))
        self.requests = {kind: weight * chance.choice(_EMPHASIS) for kind, weight in REQUESTS.items()}
        # A fault without a weight takes no chance, so that it changes no other plan.
        self.faults = {kind: weight and weight * chance.choice(_EMPHASIS) for kind, weight in FAULTS.items()}
        for weights in (self.requests, self.faults):
            weights.update({kind: themes[theme][kind] for kind in weights if kind in themes[theme]})
        if chance.random() < _WITHOUT_COPIES:
            # After an older copy, most requests are refused.
            self.faults.update(dict.fromkeys(_COPIES, 0))
        self.requests["deploy"] = max(1, self.requests["deploy"])
        self.faults["kill"] = max(1, self.faults["kill"])
        asks = theme == "approvals"
        self.strategies = _REBUILDS if theme == "rebuilds" else _STRATEGIES
        self.opaque = 0.9 if asks else chance.random()
        """The share of deploys of a release with an opaque change."""
        self.accepted = 0.1 if asks else 0.3
        """The share of requests that accept the risk of such a change in advance."""


def draw(seed: int) -> Plan:
    """Return the plan of a seed."""
    chance = random.Random(f"plan {seed}")
    weights = _Weights(chance, seed)
    unseen = chance.choice([0.0, 0.0, 0.02, 0.2] if weights.theme != "handovers" else [0.0, 0.05, 0.2])
    moves = []
    for _ in range(chance.randint(1, 5)):
        moves.append(_request(chance, weights, chance.choice([2.0, 30.0]) * chance.random(), unseen))
        for _ in range(chance.randint(0, 3)):
            pause_s = chance.choice([0.5, 3.0, 12.0, 40.0]) * chance.random()
            is_request = chance.choices([True, False], [1, 3])[0]
            moves.append(
                _request(chance, weights, pause_s, unseen) if is_request else _fault(chance, weights.faults, pause_s)
            )
    lost, watches = chance.choice([0.0, 0.0, 0.01, 0.05]), chance.choice([(), ("m1",), ("m1", "m2")])
    cleaner = weights.theme == "cleaned"
    files = chance.random() < _FROM_FILES or cleaner
    for _ in range(chance.choice([0, 1, 3]) if files else 0):
        fault = _fault(chance, dict.fromkeys(INPUT_FAULTS, 1), 12.0 * chance.random())
        moves.insert(chance.randint(1, len(moves)), fault)
    for _ in range(chance.choice([0, 0, 1, 2]) if not files else 0):
        moves.insert(
            chance.randint(1, len(moves)), _fault(chance, dict.fromkeys(TOPIC_FAULTS, 1), 12.0 * chance.random())
        )
    drivers = _drivers(seed)
    for _ in range(chance.choice([0, 1, 2, 4]) if drivers != LOCAL else 0):
        fault = _fault(chance, CLUSTER_FAULTS[drivers], 30.0 * chance.random())
        moves.insert(chance.randint(1, len(moves)), fault)
    if seed % 12 == _STRANGE_INPUT:
        moves = _with_strange_input(random.Random(f"input {seed}"), weights, moves, files=files, unseen=unseen)
    return Plan(
        seed=seed,
        output=_OUTPUTS[seed % len(_OUTPUTS)],
        lost=lost,
        unseen=unseen,
        watches=watches,
        moves=tuple(moves),
        files=files,
        cleaner=cleaner,
        stateful=chance.random() < _STATEFUL,
        drivers=drivers,
    )


def _with_strange_input(
    chance: random.Random, weights: _Weights, moves: list[Move], *, files: bool, unseen: float
) -> list[Move]:
    """Return the moves with added STRANGE_FAULTS; the requests that people make because of a recreated topic follow
    soon after it.
    """
    found = list(moves)
    for _ in range(chance.choice([1, 2, 3]) if files else chance.choice([1, 1, 2])):
        at = chance.randint(1, len(found))
        added = [_fault(chance, {_LATE_FILES if files else _TOPIC_AGAIN: 1}, 30.0 * chance.random())]
        if not files:
            pauses = [chance.choice([3.0, 60.0]) * chance.random() for _ in range(chance.choice([0, 1, 2]))]
            added += [_request(chance, weights, pause_s, unseen) for pause_s in pauses]
        found[at:at] = added
    return found


def _drivers(seed: int) -> str:
    # The simulated Spark writes files only to the machine on which it runs.
    if seed % 7 not in _IN_CLUSTERS or _OUTPUTS[seed % len(_OUTPUTS)] is OutputKind.FILES:
        return LOCAL
    return YARN if seed // 7 % 3 == _ON_YARN else KUBERNETES


def _request(chance: random.Random, weights: _Weights, pause_s: float, unseen: float) -> Move:
    # A runner that fails to observe at times belongs to a cluster, whose drivers every machine observes.
    machine = "m1" if unseen else chance.choices(["m1", "m2"], [6, 1])[0]
    kind = _kind(chance, weights.requests)
    request = {
        "action": chance.choice([RecoveryAction.RESTART, RecoveryAction.RESTORE, RecoveryAction.REBUILD]).value,
        "approved": chance.random() < 0.6,
        "accept_risk": chance.random() < weights.accepted,
        "release": "r0003" if chance.random() < weights.opaque else chance.choice(["r0001", "r0002"]),
        "on_open": chance.choice(list(OnOpen)).value,
        "handover": chance.choice(list(Handover)).value,
        "strategy": _kind(chance, weights.strategies),
    }
    return Move(
        pause_s=pause_s,
        kind=kind,
        which=chance.random(),
        seconds=chance.choice([1.0, 10.0, 100.0]) * chance.random(),
        machine=machine,
        request=request,
    )


def _fault(chance: random.Random, weights: dict[str, int], pause_s: float) -> Move:
    kind = _kind(chance, weights)
    return Move(
        pause_s=pause_s,
        kind=kind,
        which=chance.random(),
        seconds=chance.choice([3.0, 30.0, 120.0, 300.0]),
        machine=chance.choice(["m1", "m1", "m2"]),
    )


def _kind(chance: random.Random, weights: dict[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]
