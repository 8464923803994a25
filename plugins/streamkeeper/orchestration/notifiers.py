"""Send incidents with Airflow's notifiers, as listed in ``STREAMKEEPER_NOTIFIERS``.

The setting is a JSON list of dotted paths, or of ``{"notifier": path, "kwargs": {...}}``, or a single path. Templates
in kwargs can use ``incident``, which has job, query, rule, severity, event, subject, text, runbook and page. If a
notifier takes arguments such as subject or text that the setting leaves out, these are filled in.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from streamkeeper.errors import InvalidInput
from streamkeeper.model.redaction import SHORTEST, redact
from streamkeeper.pages.page_address import page_address, page_path

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.operations.jobs.notices import Message, Sender

VARIABLE = "STREAMKEEPER_NOTIFIERS"
_LONG = 8
"""Length in characters at which a part of a URL may be a token."""
_BETWEEN = re.compile(r"[/?&=#]")
_EXAMPLE = '[{"notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "kwargs": {"to": "oncall@x.org"}}]'
_USUAL = {
    "subject": "{{ incident.subject }}",
    "html_content": "<pre>{{ incident.text | e }}</pre>",
    "summary": "{{ incident.subject }}",
    "text": "{{ incident.subject }}\n{{ incident.text }}",
    "message": "{{ incident.subject }}\n{{ incident.text }}",
}


class NamedNotifier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``STREAMKEEPER_NOTIFIERS``: the dotted path of a notifier, and the notifier's arguments."""

    notifier: str
    kwargs: dict[str, Any] = {}


def read_notifiers(environ: Mapping[str, str]) -> dict[str, NamedNotifier]:
    """Return the configured notifiers by name. Raises InvalidInput, naming the variable.

    A name consists of the notifier's path and its position in the variable, so it stays the same from pass to pass.
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return {}
    try:
        parsed = json.loads(text) if text[0] in '[{"' else [text]
        entries = parsed if isinstance(parsed, list) else [parsed]
        found = [NamedNotifier(notifier=entry) if isinstance(entry, str) else _entry(entry) for entry in entries]
    except (json.JSONDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(f"{VARIABLE} cannot be read: {error}", hint=_EXAMPLE) from None
    return {f"{entry.notifier}#{number}": entry for number, entry in enumerate(found, start=1)}


def make_senders(environ: Mapping[str, str], context: Context) -> dict[str, Sender]:
    """Return a sender for each notifier. Raises nothing.

    An entry that cannot be loaded becomes a sender that fails, so that the failure is reported.
    """
    try:
        named = read_notifiers(environ)
    except InvalidInput as error:
        return {VARIABLE: _failing(error)}
    return {name: _sender(entry, context) for name, entry in named.items()}


def tell_all(context: Context, message: Message) -> list[str]:
    """Send a message with every notifier, and return one sentence per failure. Raises nothing."""
    from streamkeeper.operations.jobs.notices import bound_senders, send_message

    return send_message(bound_senders(make_senders(os.environ, context)), message)[1]


def _entry(entry: object) -> NamedNotifier:
    return msgspec.convert(entry, NamedNotifier)


def _failing(error: InvalidInput) -> Sender:
    def send(_: Message) -> None:
        raise error

    return send


def _sender(named: NamedNotifier, context: Context) -> Sender:
    def send(message: Message) -> None:
        # Each message needs a new notifier, because rendering changes the notifier.
        from streamkeeper.operations.jobs.notices import SendFailed

        kind = _load(named.notifier)
        notice: Any = {**context, "incident": msgspec.structs.asdict(_with_page(message))}
        notifier = None
        try:
            notifier = kind(**_with_usual(kind, named.kwargs))
            notifier(notice)
        except Exception as error:
            rendered = [getattr(notifier, name, None) for name in named.kwargs]
            hidden = {text: text for text in _private([named.kwargs, rendered])}
            raise SendFailed(redact(f"{type(error).__name__}: {error}", hidden)) from None

    return send


def _private(value: Any) -> Iterator[str]:
    """Yield the texts of a notifier's arguments that must not be shown. Of a URL, also yield the path and the parts of
    the path that have at least ``_LONG`` characters.
    """
    match value:
        case str() if len(value) >= SHORTEST:
            yield value
            _, separator, behind = value.partition("://")
            _, slash, path = (behind if separator else value).partition("/")
            if slash:
                yield from (part for part in (f"/{path}", *_BETWEEN.split(path)) if len(part) >= _LONG)
        case Mapping():
            yield from _private([*value.values()])
        case list() | tuple():
            for each in value:
                yield from _private(each)


def _with_page(message: Message) -> Message:
    """Return the message with the address of the job's page, if the address of Airflow is configured."""
    from airflow.configuration import conf

    base = conf.get("api", "base_url", fallback="")
    if not base:
        return message
    page = page_address(base, page_path(message.job))
    return msgspec.structs.replace(message, page=page, text=f"{message.text}\nPage: {page}")


def _load(path: str) -> Callable[..., Any]:
    """Return the class of a notifier; raises InvalidInput."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"{VARIABLE}: {path} cannot be loaded: {error}", hint=_EXAMPLE) from None
    if not callable(found):
        raise InvalidInput(f"{VARIABLE}: {path} is not a notifier", hint=_EXAMPLE)
    return found


def _with_usual(kind: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, and texts of the incident for arguments that the notifier takes and the setting
    leaves out.
    """
    takes = inspect.signature(kind).parameters
    return {**{name: text for name, text in _USUAL.items() if name in takes}, **arguments}
