"""A notifier that posts an incident as JSON to any address."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from airflow.sdk.bases.notifier import BaseNotifier

from streamkeeper.errors import InvalidInput, TemporaryError

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_S = 10.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would follow with a GET without the message, and with the headers, and take its answer for the hook's."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class WebhookNotifier(BaseNotifier):
    """POSTs ``{"job", "query", "rule", "severity", "event", "subject", "text", "runbook", "page"}`` to ``url``, which
    may be a template."""

    template_fields = ("url", "headers")

    def __init__(self, url: str, headers: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.headers = headers or {}

    def notify(self, context: Context) -> None:
        """Raises OSError for no answer, TemporaryError for one that is none of 2xx, a redirect too, InvalidInput.

        No error of its own holds the address: that of a hook is a secret.
        """
        if not self.url.startswith(("http://", "https://")):
            raise InvalidInput("the webhook's url is not an address", hint="https://…")
        told: Any = context
        data = json.dumps(told["incident"]).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        request = urllib.request.Request(self.url, data=data, headers=headers, method="POST")
        try:
            with _OPENER.open(request, timeout=LONGEST_S) as answer:
                status = answer.status
        except HTTPError as error:
            status = error.code
            error.close()
        if not 200 <= status < 300:
            raise TemporaryError(f"{urlsplit(self.url).hostname} answered {status}") from None
