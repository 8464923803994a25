"""Admit a deploy or a rollback before it is recorded: a refusal leaves no record and starts no driver.

``Deploy.open`` calls every check, in the order that docs/internals/architecture.md lists under "Admission". This module
has the checks that need the job and its code, and writes nothing. The steps of a deploy recheck what may have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from streamkeeper.errors import JobUnusable, NotFound, OperationRefused
from streamkeeper.model.manifests.declaration import Declaration
from streamkeeper.model.manifests.params import validate_params
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.requests.request import DeployRequest, Rollback, Strategy
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.model.settings.release_conf import check_release_conf
from streamkeeper.operations.deploys.deaths import must_not_be_shared
from streamkeeper.operations.deploys.declarations import ask_declaration
from streamkeeper.operations.deploys.deploy import Deploy, OnOpen
from streamkeeper.operations.deploys.deploy_acts import release_before
from streamkeeper.operations.deploys.repeated_requests import as_asked
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.placement import check_placement
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.objects import read_object

_AGAIN = "check the current release, and deploy again"


def open_deploy(
    installation: Installation, operation: str, request: DeployRequest, *, on_open: OnOpen = OnOpen.REFUSE
) -> Deploy:
    """Check the request and start the operation; if ``operation`` was started before, return it.

    ``on_open``: what to do about another open operation, as in ``Deploy.open``.

    Raises the errors of ``admit`` and ``Deploy.open``.
    """
    inherits = request.inherit_params or request.inherit_conf
    inherited_from: list[str] = []

    def prepare(state: JobState) -> DeployRequest:
        inherited_from.append(state.serving_release)
        return admit(installation, state, request)

    def allowed(now: JobState) -> None:
        if not inherited_from:
            # Another operation was open, so the request was not prepared.
            raise OperationRefused(
                f"the operation that was open for job {request.job} ended while this deploy was requested", hint=_AGAIN
            )
        if inherits and now.serving_release != inherited_from[0]:
            raise OperationRefused(
                f"{now.serving_release} became the current release after this deploy was requested, so the deploy"
                f" would not inherit the params and confs of {now.serving_release}",
                hint=_AGAIN,
            )

    return Deploy.open(installation, operation, request, on_open=on_open, prepare=prepare, allowed=allowed)


def find_same(installation: Installation, request: DeployRequest) -> str:
    """Return the id of the job's open operation if the same person made the same request; empty otherwise.

    Raises OperationRefused if the code has changed since that operation started, because that operation deploys the
    earlier code.
    """
    state = installation.journal(request.job, "reader").state()
    found = state.open_operation
    if found is None or found.request.requested_by != request.requested_by:
        return ""
    if as_asked(found.request) != as_asked(request):
        return ""
    name = found.release
    by_name = request.release is not None or isinstance(request.kind, Rollback)
    if not by_name and name in state.releases:
        now = build_bundle(Path(installation.settings.jobs), request.job).sha256
        if now != state.releases[name].content.bundle:
            raise OperationRefused(
                f"open operation {found.operation} of job {request.job} deploys {name}, but the code has changed since"
                " the operation started",
                hint=f"use `--on-open continue` to finish the deploy of {name}, or `--on-open abort` to end that"
                " operation and deploy the current code",
            )
    return found.operation


def admit(installation: Installation, state: JobState, request: DeployRequest) -> DeployRequest:
    """Check a request against the job and its code, and return it with its inherited params and conf. Takes seconds.

    In this order: the machine; drivers whose termination is stated; ``revive``; for a rollback, its target; for a
    release, its params and secrets; for the code under the jobs root, confs, the code itself, params and secrets; and
    last, whether a driver can start. ``Deploy.open`` has checked the request by itself before.

    Raises these errors:

    - NotFound: the job or the release does not exist.
    - JobUnusable: the code is not Python, does not import or does not declare the job.
    - InvalidInput: params, conf or secrets are wrong.
    - OperationRefused: a revival of a job that was not forgotten, a rollback without an earlier release, or a
      checkpoint that a driver with a stated termination may still write.
    - PermanentError: Java is missing or unsuitable.
    - WrongMachine: the job's drivers or its checkpoint are on another machine.
    """
    check_placement(installation, state)
    if request.strategy is not Strategy.REBUILD:
        must_not_be_shared(installation, state)
    if request.revive and state.forgotten is None:
        raise OperationRefused(f"job {request.job} was not forgotten", hint="deploy it without --revive")
    if isinstance(request.kind, Rollback):
        _check_rollback(read_job(installation, request.job), request)
        installation.runner.check_place(conf=_conf_of(state, request.release))
        return request
    if request.release is not None:
        _check_release(installation, state, request, request.release)
        installation.runner.check_place(conf=_conf_of(state, request.release))
        return request
    request = _with_inherited(state, request)
    references = find_references(request.params, request.conf)
    check_release_conf(request.conf, installation.settings.confs)
    bundle = build_bundle(Path(installation.settings.jobs), request.job)
    declaration = _ask(installation, request.job, bundle.data, bundle.entry)
    request = _without_undeclared(request, declaration)
    _check_values(installation, request.job, declaration, request.params, request.conf)
    installation.runner.check_place(references, request.conf)
    return request


def _conf_of(state: JobState, release: str | None) -> dict[str, str] | None:
    known = state.releases.get(release or "")
    return known.content.conf if known is not None else None


def _check_rollback(state: JobState, request: DeployRequest) -> None:
    try:
        wanted = request.release or release_before(state)
    except OperationRefused as error:
        raise OperationRefused(f"job {request.job}: {error}") from None
    if wanted == state.serving_release:
        raise OperationRefused(
            f"{wanted} is the current release of job {request.job}",
            hint=f"to start it, run `streamkeeper start {request.job}`",
        )
    if wanted not in state.releases:
        raise NotFound(
            f"job {request.job} has no release {wanted}", hint=f"run `streamkeeper release list {request.job}`"
        )


def _check_release(installation: Installation, state: JobState, request: DeployRequest, name: str) -> None:
    release = state.releases.get(name)
    if release is None:
        listing = f"run `streamkeeper release list {request.job}`"
        hint = listing if state.number else "check the name: no job of that name is recorded"
        raise NotFound(f"job {request.job} has no release {name}", hint=hint)
    content = release.content
    bundle = read_object(installation.store, request.job, "bundles", content.bundle, ".zip")
    declaration = _ask(installation, request.job, bundle, content.entry)
    _check_values(installation, request.job, declaration, content.params, content.conf)


def check_params(installation: Installation, job: str, params: Mapping[str, ParamValue]) -> None:
    """Check params against the job file's declaration; raises as ``admit`` does. Secrets are not resolved."""
    bundle = build_bundle(Path(installation.settings.jobs), job)
    _check_declared(job, _ask(installation, job, bundle.data, bundle.entry), params)


def _check_declared(job: str, declaration: Declaration, params: Mapping[str, ParamValue]) -> None:
    if declaration.params is not None:
        validate_params(declaration.declared, params, job=job)


def _ask(installation: Installation, job: str, bundle: bytes, entry: str) -> Declaration:
    declaration = ask_declaration(installation.settings, bundle, entry, job)
    if declaration.error:
        raise JobUnusable(declaration.error)
    return declaration


def _check_values(
    installation: Installation,
    job: str,
    declaration: Declaration,
    params: Mapping[str, ParamValue],
    conf: Mapping[str, str],
) -> None:
    _check_declared(job, declaration, params)
    resolve(find_references(params, conf), installation.resolvers)


def _with_inherited(state: JobState, request: DeployRequest) -> DeployRequest:
    serving = state.releases.get(state.serving_release)
    if serving is None or not (request.inherit_params or request.inherit_conf):
        return request
    return replace(
        request,
        params=serving.content.params if request.inherit_params else request.params,
        conf=serving.content.conf if request.inherit_conf else request.conf,
        inherited_from=serving.name,
    )


def _without_undeclared(request: DeployRequest, declaration: Declaration) -> DeployRequest:
    """Drop inherited params that the code no longer declares; params that the request itself sets are kept."""
    if declaration.params is None or not request.inherit_params:
        return request
    left = tuple(sorted(set(request.params) - set(declaration.params)))
    params = {name: value for name, value in request.params.items() if name not in left}
    return replace(request, params=params, not_inherited=left)
