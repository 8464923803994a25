"""The Airflow plugin: the page, the entry under Admin, Plugins, and a guard for Airflow's API."""

from __future__ import annotations

from typing import Any

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from streamkeeper.orchestration.page import page_app, page_views
from streamkeeper.pages.page_address import PREFIX

_LOOPBACK = ("127.0.0.1", "localhost")


def _for_everybodys_api() -> list[dict[str, Any]]:
    """Return a middleware that refuses foreign Host headers, if the API needs no login and listens only on the loopback
    interface.

    Without this middleware, a web page whose host name resolves to 127.0.0.1 would have an admin's rights.
    """
    open_to_all = conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False)
    if not open_to_all or conf.get("api", "host", fallback="") not in _LOOPBACK:
        return []
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    hosts = {"allowed_hosts": list(_LOOPBACK), "www_redirect": False}
    return [{"name": "streamkeeper-hosts", "middleware": TrustedHostMiddleware, "args": [], "kwargs": hosts}]


class StreamkeeperPlugin(AirflowPlugin):
    """Registers the page, and shows in Airflow that Streamkeeper is installed."""

    name = "streamkeeper"
    fastapi_apps = [{"app": page_app, "url_prefix": PREFIX, "name": "Streamkeeper"}]
    external_views = page_views()
    fastapi_root_middlewares = _for_everybodys_api()
