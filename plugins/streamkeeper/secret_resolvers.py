"""The sources of secrets on every machine; the orchestration adds Airflow's connections."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from streamkeeper.errors import InvalidInput
from streamkeeper.model.setting_variables import SECRET_PREFIX


def env_resolver(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """``secret://env/NAME`` -> the environment variable ``STREAMKEEPER_SECRET_NAME``.

    No other variable is ever returned: the person who triggers a deploy chooses the name, and the process that launches
    drivers has keys of its own, such as Airflow's. Raises InvalidInput, naming the variable, if it is not set.
    """
    source = os.environ if environ is None else environ

    def resolve_env(name: str) -> str:
        variable = f"{SECRET_PREFIX}{name}"
        value = source.get(variable)
        if not value:
            raise InvalidInput(
                f"secret://env/{name}: the environment variable {variable} is not set",
                hint="set it for the process that launches drivers",
            )
        return value

    return resolve_env


def built_in_resolvers(environ: Mapping[str, str] | None = None) -> dict[str, Callable[[str], str]]:
    """Scheme -> resolver, for those that need only this process."""
    return {"env": env_resolver(environ)}
