"""Where secrets come from on any machine; Airflow's connections are added by the orchestration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from streamkeeper.errors import InvalidInput


def env_resolver(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """``secret://env/NAME`` -> the environment variable NAME; raises InvalidInput, naming it, when it is not set."""
    source = os.environ if environ is None else environ

    def resolve_env(name: str) -> str:
        value = source.get(name)
        if not value:
            raise InvalidInput(
                f"secret://env/{name}: the environment variable {name} is not set",
                hint="set it for the process that launches drivers",
            )
        return value

    return resolve_env


def built_in_resolvers(environ: Mapping[str, str] | None = None) -> dict[str, Callable[[str], str]]:
    """Scheme -> resolver, for what needs nothing but this process."""
    return {"env": env_resolver(environ)}
