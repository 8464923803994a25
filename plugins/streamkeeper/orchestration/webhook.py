"""A notifier that posts an incident as JSON to a URL."""

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
    """Follows no redirect. On a redirect, urllib would send a GET with the headers but without the message, and return
    the response to that GET.
    """

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
        """Post the incident in ``context``.

        Raises OSError if the server does not answer, TemporaryError for a status other than 2xx (also for a redirect),
        InvalidInput for a URL that is not http or https. The errors raised here do not contain the URL, because it is a
        secret.
        """
        if not self.url.startswith(("http://", "https://")):
            raise InvalidInput("the webhook's url is not an http or https URL", hint="write it like https://…")
        notice: Any = context
        data = json.dumps(notice["incident"]).encode()
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
