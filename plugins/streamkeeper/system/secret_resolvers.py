"""The sources of secrets that work on every machine; in Airflow, its connections are a further source."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from streamkeeper.errors import InvalidInput
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX


def env_resolver(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Return a resolver that returns, for ``NAME`` in ``secret://env/NAME``, the value of the environment variable
    ``STREAMKEEPER_SECRET_NAME``.

    The resolver never returns another variable, because the person who triggers a deploy chooses ``NAME``, and the
    process that launches drivers has secrets of its own, such as Airflow's keys. The resolver raises InvalidInput with
    the variable's name if the variable is not set or is empty.
    """
    source = os.environ if environ is None else environ

    def resolve_env(name: str) -> str:
        variable = f"{SECRET_PREFIX}{name}"
        value = source.get(variable)
        if not value:
            raise InvalidInput(
                f"secret://env/{name}: the environment variable {variable} is not set",
                hint="set the variable for the process that launches drivers",
            )
        return value

    return resolve_env


def built_in_resolvers(environ: Mapping[str, str] | None = None) -> dict[str, Callable[[str], str]]:
    """Return the resolvers that need only this process, by the scheme of the references that they resolve."""
    return {"env": env_resolver(environ)}
