"""Who may answer an operation's questions, also in advance: one pure rule for every entry point.

The installation's list and the current release's list must both name the person; neither widens the other. A
candidate's own list applies once its release is current, and only people on the old list can introduce another one:
code under approval does not choose its own approvers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec

from streamkeeper.errors import OperationRefused
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.settings.approvers import NOBODY, Approver, read_approver, same_person
from streamkeeper.model.settings.settings import Settings

_USUAL = DeployRequest(job="")


class RightToAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The rule for who may answer the questions of one operation.

    ``lists``: owner of a list -> the names on it; a person must be on every list to answer.
    ``four_eyes``: whether the requester may not answer.
    ``asked_by``: the requester, as in the request.
    """

    lists: dict[str, tuple[str, ...]]
    four_eyes: bool
    asked_by: str

    def objection(self, by: str, user_id: str = "") -> str:
        """Return why this person's answer does not count; empty if it does. ``user_id``: the id in Airflow, if any."""
        if not by.strip():
            return "the user who answers is unknown"
        for whose, names in self.lists.items():
            if not any(read_approver(name).is_named(by, user_id) for name in names):
                return f"{by} is not among the approvers of {whose}: {', '.join(names)}"
        if not self.four_eyes:
            return ""
        if self.asked_by in ("", NOBODY):
            return "a person other than the requester must answer, and the requester is unknown"
        if same_person(by, self.asked_by):
            return f"{self.asked_by} requested it, so another person must answer"
        return ""

    def named(self) -> tuple[Approver, ...] | None:
        """Return the people who may answer; None if there is no list.

        Without a list, every user may answer, except the requester if ``four_eyes`` is set.
        """
        if not self.lists:
            return None
        return tuple(approver for approver in self.listed if not self.objection(approver.name, approver.id))

    @property
    def listed(self) -> tuple[Approver, ...]:
        """All people on any of the lists."""
        return tuple(read_approver(name) for name in dict.fromkeys(chain.from_iterable(self.lists.values())))

    @property
    def sentence(self) -> str:
        """A sentence naming those who may answer."""
        left = self.named()
        if left is None:
            return f"every user who may trigger it{', except the requester' if self.four_eyes else ''}"
        if not left:
            return "no user is left: " + "; ".join(
                f"{whose} names {', '.join(names)}" for whose, names in self.lists.items()
            )
        return ", ".join(dict.fromkeys(approver.name for approver in left))


def right_to_answer(settings: Settings, state: JobState, asked_by: str) -> RightToAnswer:
    """Return the rule for who may answer the questions of an operation of this job; ``asked_by``: the requester."""
    lists = {"the installation": settings.approvers} if settings.approvers else {}
    if own := _own_list(state, state.serving_release):
        lists[f"{state.serving_release} of {state.job}"] = own
    return RightToAnswer(lists=lists, four_eyes=settings.four_eyes, asked_by=asked_by)


def must_have_right(settings: Settings, state: JobState, request: DeployRequest) -> None:
    """Raise OperationRefused if a request answers a question in advance although its requester may not answer
    questions.

    For a recovery, also raise OperationRefused if the person who accepted the loss may not answer questions.
    """
    accepted = tuple(_said_beforehand(request))
    by = request.requested_by
    if accepted and (objection := right_to_answer(settings, state, by).objection(by)):
        raise OperationRefused(
            f"{', '.join(accepted)} may not be set: {objection}",
            hint="omit these options. If an approval is required, the operation asks a person",
        )
    recover = request.recovery
    if recover is None or not recover.accepted_by:
        return
    if objection := right_to_answer(settings, state, by).objection(recover.accepted_by):
        raise OperationRefused(
            f"the recovery loses or duplicates rows, and no authorized person has accepted this: {objection}",
            hint="trigger the DAG streaming_recover, which asks the approvers",
        )


def may_change_approvers(settings: Settings, state: JobState, request: DeployRequest, release: str) -> None:
    """Raise OperationRefused if ``release`` changes the job's list of approvers and the requester may not change it.

    The list is compared with the current release's list. To change it, the requester must be on the current release's
    list, and on the installation's list if there is one. A dry run is never refused. If the current release has no
    list, every requester may introduce one.
    """
    serving = _own_list(state, state.serving_release)
    if request.dry_run or not serving or set(serving) == set(_own_list(state, release)):
        return
    right = msgspec.structs.replace(right_to_answer(settings, state, request.requested_by), four_eyes=False)
    if objection := right.objection(request.requested_by):
        raise OperationRefused(
            f"release {release} has other approvers than {state.serving_release}: {objection}",
            hint="keep the list of approvers unchanged, or let one of the current approvers deploy this release",
        )


def _own_list(state: JobState, release: str) -> tuple[str, ...]:
    found = state.releases.get(release)
    return found.content.approvers if found is not None else ()


def _said_beforehand(request: DeployRequest) -> Iterator[str]:
    """Yield the options with which a request answers questions in advance; a dry run has none."""
    if request.dry_run:
        return
    if request.accept_risk:
        yield "accept_risk"
    if request.accept_loss:
        yield "accept_loss"
    if request.accept_state_loss:
        yield "accept_state_loss"
    # The person who accepted a recovery's loss is judged separately from the recovery's requester.
    if request.accept_output_loss and not (request.recovery and request.recovery.accepted_by):
        yield "accept_output_loss"
    if not request.compare:
        yield "compare=false"
    for name in ("most_missing", "most_differing", "expect_different"):
        if getattr(request, name) != getattr(_USUAL, name):
            yield name
