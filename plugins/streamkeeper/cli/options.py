"""Command line options made from the fields of a request, with names, defaults and help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, get_args

import msgspec
import typer

from streamkeeper.cli.command_results import reporting
from streamkeeper.cli.common_options import read_conf, read_params
from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.requests.asked_fields import AskedField, Verb, asked_fields
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.requests.request_limits import check_length, check_request

Command = Callable[..., None]


def takes_request(verb: Verb) -> Callable[[Command], Command]:
    """Replace the parameter ``request`` of a command by one option for each field that ``verb`` takes, and by ``JOB``.

    The command is called with the DeployRequest that the options describe; its other parameters stay as they are.
    Params and confs that are not given are inherited.
    """

    def decorate(command: Command) -> Command:
        fields = asked_fields(DeployRequest, verb)

        @wraps(command)
        def run(**options: Any) -> None:
            asked = {name: options.pop(name) for name in fields}
            # Before the command creates an installation, or diagnoses for minutes.
            try:
                request = _request(fields, asked)
                check_request(request)
            except StreamkeeperError:
                as_json = options.get("json", False) and _gives_result(verb)
                with reporting(verb.value, job=str(asked["job"]), as_json=as_json):
                    raise
            command(request=request, **options)

        # job, then the options in the order of the command's signature.
        job, *others = [_parameter(each, verb) for each in fields.values()]
        found: list[inspect.Parameter] = []
        for each in inspect.signature(command, eval_str=True).parameters.values():
            found += others if each.name == "request" else [each.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        run.__signature__ = inspect.Signature([job, *found])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return decorate


def _gives_result(verb: Verb) -> bool:
    """Whether ``--json`` prints the result of the command; a recovery prints its diagnosis."""
    return verb is not Verb.RECOVER


def asked(name: str, **other: Any) -> Any:
    """Return the option for one field of a request, for a command that makes no request.

    ``other``: arguments for ``typer.Option``, which replace those derived from the field.
    """
    return _option(asked_fields(DeployRequest)[name], **other)


def _parameter(field: AskedField, verb: Verb) -> inspect.Parameter:
    kind, default = _typed(field)
    if field.default is msgspec.NODEFAULT:
        shown = typer.Argument(metavar=field.ask.metavar, help=_plain(field.help(verb)))
    else:
        shown = _option(field, help=_help(field, verb))
    if field.default is msgspec.NODEFAULT or verb in field.ask.required:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
    )


def _option(field: AskedField, **other: Any) -> Any:
    flags = [] if field.default is True else [f"--{field.name.replace('_', '-')}"]
    held = {"callback": _held_to_length(field.name)} if "maxLength" in field.schema else {}
    shown = {"help": field.ask.help, "metavar": field.ask.metavar or None, **held, **other}
    return typer.Option(*flags, **{**shown, "help": _plain(shown["help"])})


def _typed(field: AskedField) -> tuple[Any, Any]:
    """Return the type and the default of the option: JSON for params, and repeated options for confs and lists."""
    match field.default:
        case {}:
            return (list[str] if get_args(field.kind)[1] is str else str) | None, None
        case tuple():
            return list[str] | None, None
        case _:
            return field.kind, field.default


def _request(fields: Mapping[str, AskedField], options: Mapping[str, Any]) -> DeployRequest:
    """Return the request; raises InvalidInput for params or confs that cannot be read."""
    inherits: dict[str, Any] = {f"inherit_{name}": not options[name] for name in ("params", "conf") if name in fields}
    return DeployRequest(**{name: _read(field, options[name]) for name, field in fields.items()}, **inherits)


def _read(field: AskedField, value: Any) -> Any:
    match field.default:
        case {}:
            return read_conf(value) if get_args(field.kind)[1] is str else read_params("{}" if value is None else value)
        case tuple():
            return tuple(value or ())
        case _:
            return value


def _help(field: AskedField, verb: Verb) -> str:
    repeated = get_args(_typed(field)[0]) and get_args(_typed(field)[0])[0] == list[str]
    return f"{field.help(verb)}. Repeatable" if repeated else field.help(verb)


def _plain(text: str) -> str:
    return text.replace("`", "")


def _held_to_length(name: str) -> Callable[[typer.CallbackParam, str], str]:
    def check(param: typer.CallbackParam, value: str) -> str:
        check_length(name, value, required=param.required)
        return value

    return check
