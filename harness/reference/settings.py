"""The page about environment variables, from the table that ``read_settings`` reads."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from harness.reference.markdown import code, page, table
from streamkeeper.model.settings.setting_variables import SECRET_PREFIX, VARIABLES, Variable
from streamkeeper.model.settings.settings import shown_default

_INTRODUCTION = """
An installation is set by environment variables. Give every part of Airflow, every shell and every systemd unit the
same ones. Only `STREAMKEEPER_HOME` is required. An empty variable counts as unset; a misspelt one is refused by name.
Variables marked *Airflow* are read by Airflow's tasks and DAG files only.
"""

_OTHERS = """
These variables of other programs reach drivers, tasks and commands, too:

| variable | use |
|---|---|
| `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, … | store, snapshots and checkpoints on S3; without keys the machine's role applies. Keys are not passed to drivers in containers |
| `HADOOP_CONF_DIR`, `HADOOP_USER_NAME` | checkpoints on HDFS, drivers on YARN |
| `KUBECONFIG` | drivers on Kubernetes, from outside of the cluster |
| `JAVA_HOME`, `JDK_JAVA_OPTIONS` | which Java 17 drivers use, and its options |
| `SPARK_LOCAL_IP`, `SPARK_LOCAL_HOSTNAME` | the address under which a cluster's executors reach a driver |
| `TZ`, `TMPDIR`, `LANG`, `LC_ALL`, `LC_CTYPE` | as usual; names of files are always UTF-8 |
"""  # noqa: E501

_COMPOSE = """
`make up` also reads `STREAMKEEPER_PORT` (default `18080`). docker-compose.yml reads `.env`, whose variables
[docker/env.example](../../docker/env.example) explains: passwords and ports, `STREAMKEEPER_DATA`,
`STREAMKEEPER_DRIVERS_MEMORY` and `STREAMKEEPER_MACHINE_ID` among them.
"""

_TESTS = """
`STREAMKEEPER_CRASH`, `STREAMKEEPER_CRASH_ONCE`, `STREAMKEEPER_CRASH_SIGNAL` and `STREAMKEEPER_CRASH_TRACE` end a
process at a named point. They are for tests; never set them in production. Streamkeeper sets these
itself; do not set `STREAMKEEPER_CLAIM`, `STREAMKEEPER_CLONE`, `STREAMKEEPER_CONTAINER`,
`STREAMKEEPER_GENERATION`, `STREAMKEEPER_INSTALLATION`, `STREAMKEEPER_INSTANCE`, `STREAMKEEPER_POD_GRACE_S`,
`STREAMKEEPER_POD_UID` or
`STREAMKEEPER_SECRETS`.
"""


def render_settings() -> str:
    """docs/reference/settings.md."""
    topics = groupby(sorted(VARIABLES, key=lambda each: _TOPICS.index(each.topic)), key=attrgetter("topic"))
    sections = [f"## {topic}\n\n{_table(list(found))}" for topic, found in topics]
    secret = (
        f"## Secrets\n\n`{SECRET_PREFIX}NAME` is the value of the reference `secret://env/NAME`, in the environment of"
        " the process that starts drivers. The reference reaches no other variable."
        " [Secrets](../guides/secrets.md) has the other kinds of references."
    )
    return page(
        "Settings",
        _INTRODUCTION,
        *sections,
        secret,
        f"## Variables of other programs\n\n{_OTHERS.strip()}",
        f"## Demonstrations and containers\n\n{_COMPOSE.strip()}",
        f"## Not settings\n\n{_TESTS.strip()}",
    )


_TOPICS = list(dict.fromkeys(each.topic for each in VARIABLES))


def _table(variables: list[Variable]) -> str:
    rows = (
        (
            code(each.variable),
            _default(shown_default(each)),
            f"{each.description} (*Airflow*)" if each.airflow_only else each.description,
        )
        for each in variables
    )
    return table(("variable", "default", "meaning"), rows)


def _default(text: str) -> str:
    """Values as code, explanations as they are."""
    is_value = " " not in text or text[0] in "*0123456789@"
    return code(text) if is_value and text not in ("none", "required") else text
