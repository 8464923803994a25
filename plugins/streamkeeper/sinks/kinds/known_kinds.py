"""Every kind of sink by its name in a manifest. Other packages do not name a kind of sink themselves, but look it up
here.
"""

from __future__ import annotations

from streamkeeper.locations import scheme_of
from streamkeeper.model.manifests.sink_capabilities import SinkCapabilities
from streamkeeper.model.names import alternatives
from streamkeeper.model.protocol.fault_kinds import Judged
from streamkeeper.sinks.kinds.append_table_kind import APPEND_TABLE
from streamkeeper.sinks.kinds.delta_kind import DELTA
from streamkeeper.sinks.kinds.file_kind import FILE
from streamkeeper.sinks.kinds.foreach_kind import FOREACH
from streamkeeper.sinks.kinds.kafka_kind import KAFKA
from streamkeeper.sinks.kinds.sink_kind import ClientError, SinkKind
from streamkeeper.sinks.kinds.table_kind import TABLE

KINDS: dict[str, SinkKind] = {kind.name: kind for kind in (TABLE, APPEND_TABLE, FILE, DELTA, KAFKA, FOREACH)}
"""Name -> kind."""
_UNKNOWN = SinkCapabilities()


def capabilities_of(kind: str) -> SinkCapabilities:
    """Return the capabilities of a kind of output, by its name in a manifest; the defaults for an unknown kind."""
    return KINDS[kind].capabilities if kind in KINDS else _UNKNOWN


def why_not_from_elsewhere(kind: str, output: str) -> str:
    """Return why executors on other machines cannot write an output of this description; empty if they can."""
    return capabilities_of(kind).not_from_elsewhere or why_not_from_any_node(kind, output)


def why_not_from_any_node(kind: str, output: str) -> str:
    """Return why a driver that may change machines cannot write an output; empty if it can."""
    return capabilities_of(kind).of_one_machine.get(scheme_of(output), "")


def kinds_at(place: str) -> tuple[str, ...]:
    """Return the names of the kinds whose fences may be found in a place, which is a URL or a path."""
    scheme = scheme_of(place).partition("+")[0]
    return tuple(kind.name for kind in KINDS.values() if scheme in kind.schemes)


def places_of_outputs() -> str:
    """Return what a person can name as the place of an output, as a list for a sentence."""
    return alternatives([*dict.fromkeys(kind.place for kind in KINDS.values() if kind.place)])


def connector_folders() -> tuple[str, ...]:
    """Return the folders of the jars that sinks need, below the folder of all connectors."""
    return tuple(kind.connectors for kind in KINDS.values() if kind.connectors)


def task_modules() -> tuple[str, ...]:
    """Return the modules of Streamkeeper that Spark's tasks run on executors."""
    return tuple(dict.fromkeys(kind.task_module for kind in KINDS.values() if kind.task_module))


def task_class_of(kind: str) -> str:
    """Return the class of the package ``jvm`` that the plan of a batch calls in Spark's tasks; empty if it calls none.

    ``kind``: the kind of the batch's output, by its name in a manifest.
    """
    return KINDS[kind].task_class if kind in KINDS else ""


def columns_read_by_name(form: str) -> tuple[str, ...]:
    """Return the columns that Spark's own writer of a format reads by name, other than the content; empty if it reads
    none.
    """
    return KINDS[form].format_columns if form in KINDS else ()


def judge_client_error(error: ClientError) -> Judged | None:
    """Return the judgement of the kind whose client raised an error; None if no kind recognises the error."""
    judges = (kind.judge for kind in KINDS.values() if kind.judge is not None)
    return next((judged for judge in judges if (judged := judge(error)) is not None), None)


def cause_attributes() -> tuple[str, ...]:
    """Return the attributes in which client errors keep the error that caused them."""
    return tuple(kind.cause_attribute for kind in KINDS.values() if kind.cause_attribute)


def sinks_of_jobs() -> str:
    """Return the names of the sinks that a job can use, as a list for a sentence."""
    return alternatives([kind.sink for kind in KINDS.values()])
