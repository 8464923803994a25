"""Export of a checkpoint's state as Parquet files, for backups and inspection."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.errors import PermanentError, TemporaryError
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.protocol.drill_messages import ExportAnswer, ExportRequest
from streamkeeper.operations.jobs.worker_client import DriverDied, ask_driver

_MODULE = "streamkeeper.driver.export"


def export_state(checkpoint: Path, target: Path, *, batch: int | None = None) -> ExportAnswer:
    """Let a driver process write every state store of a local checkpoint below ``target``, which must not exist.

    Raises PermanentError with the reason if no file was written, TemporaryError if the process was killed.
    """
    request = ExportRequest(checkpoint=str(checkpoint.absolute()), batch=batch, target=str(target.absolute()))
    try:
        line = next(ask_driver(_MODULE, [to_json(request)], {}, {}))
    except DriverDied as died:
        if died.killed:
            raise TemporaryError(f"the export of {checkpoint} was killed: {died}") from died
        raise
    answer = from_json(line, ExportAnswer, where="the driver's answer")
    if answer.error:
        raise PermanentError(answer.error)
    return answer
