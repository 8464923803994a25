"""A notifier that posts an incident as JSON to any address."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier

from streamkeeper.errors import InvalidInput, TemporaryError

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_S = 10.0


class WebhookNotifier(BaseNotifier):
    """POSTs ``{"job", "query", "rule", "severity", "event", "subject", "text", "runbook", "page"}`` to ``url``, which
    may be a template."""

    template_fields = ("url", "headers")

    def __init__(self, url: str, headers: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url
        self.headers = headers or {}

    def notify(self, context: Context) -> None:
        """Raises OSError for no answer and for an error, TemporaryError for one that is none of 2xx, InvalidInput."""
        if not self.url.startswith(("http://", "https://")):
            raise InvalidInput(f"{self.url!r} is no address", hint="https://…")
        told: Any = context
        data = json.dumps(told["incident"]).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        request = urllib.request.Request(self.url, data=data, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=LONGEST_S) as answer:
            if not 200 <= answer.status < 300:
                raise TemporaryError(f"{self.url} answered {answer.status}")
