"""Values to JSON and back: one pair for every stored type."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from streamkeeper.errors import FormatTooNew, RegistryDamaged

T = TypeVar("T")


def to_json(value: object, *, in_order: bool = False) -> bytes:
    """Canonical JSON: keys sorted, so that equal values are equal bytes.

    ``in_order`` keeps the order that dicts have instead, for values in which it means something.
    """
    return msgspec.json.encode(value, order=None if in_order else "sorted")


def from_json(data: bytes, kind: type[T], *, where: str, newest_format: int | None = None) -> T:
    """Decode ``data``, stored under ``where``; raises FormatTooNew or RegistryDamaged, naming it."""
    try:
        if newest_format is not None:
            found = msgspec.json.decode(data, type=_Format).format
            if found > newest_format:
                raise FormatTooNew(f"{where} has format {found}", hint=f"this version reads up to {newest_format}")
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RegistryDamaged(f"{where} cannot be read: {error}") from error


class _Format(msgspec.Struct):
    format: int = 1
