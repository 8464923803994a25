"""Converts stored values to JSON and back, with one pair of functions for every stored type."""

from __future__ import annotations

import json
import threading
from typing import Any, TypeVar

import msgspec

from streamkeeper.errors import FormatTooNew, InvalidInput, RegistryDamaged

T = TypeVar("T")

MOST_BYTES = 32 * 1024 * 1024
"""The largest number of bytes of JSON to decode, if a kind of record sets no other limit. Decoded values take far more
memory than text.
"""


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_building = threading.Lock()


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type, which is made on the first call. Only one thread at a time makes a decoder.

    msgspec (0.22.0) exposes a Struct's decoder to other threads before it is finished. If another thread decodes the
    same type at that moment, the process crashes with a segmentation fault.
    """
    found = _DECODERS.get(kind)
    if found is None:
        with _building:
            found = _DECODERS.setdefault(kind, msgspec.json.Decoder(kind))
    return found


def to_json(value: object, *, in_order: bool = False) -> bytes:
    """Return canonical JSON with sorted keys, so that equal values give equal bytes.

    ``in_order`` keeps the order of dicts instead, for values whose order is significant. Raises InvalidInput for text
    that is not Unicode.
    """
    try:
        return msgspec.json.encode(value, order=None if in_order else "sorted")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{ascii(error.object)[:80]} is not Unicode", hint="write it in UTF-8") from None


def from_json(data: bytes, kind: type[T], *, where: str, newest_format: int | None = None, most: int = MOST_BYTES) -> T:
    """Decode a stored value; raises FormatTooNew or RegistryDamaged, which name the place of the data.

    ``data``: the JSON.
    ``kind``: the type to decode.
    ``where``: the place of the data, for errors.
    ``newest_format``: the newest format to accept; None for data without a format number.
    ``most``: the most bytes to decode; longer data raises RegistryDamaged.
    """
    if len(data) > most:
        raise RegistryDamaged(
            f"{where} is {len(data):,} bytes, more than the {most:,} that such a record can have",
            hint="Streamkeeper does not write such a record: find out what wrote it, and restore the original content",
        )
    try:
        if newest_format is not None:
            found = decoder_of(_Format).decode(data).format
            if found > newest_format:
                raise FormatTooNew(
                    f"{where} has format {found}, but this Streamkeeper reads only formats up to {newest_format}",
                    hint="update Streamkeeper here to the version that wrote the record",
                )
        return decoder_of(kind).decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RegistryDamaged(f"{where} cannot be read: {error}") from error
    except RecursionError:
        raise RegistryDamaged(f"{where} cannot be read: it is nested too deep") from None


class _Format(msgspec.Struct):
    format: int = 1


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of another program. Raises ValueError for invalid JSON, or for deeper nesting than Python supports."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Parse a JSON object of another program; return None for anything else."""
    try:
        found = parse_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
