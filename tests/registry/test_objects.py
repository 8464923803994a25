"""Tests content-addressed objects, which are stored once and verified when read."""

from __future__ import annotations

import hashlib

import pytest

from streamkeeper.errors import RegistryDamaged
from streamkeeper.registry.objects import object_key, put_object, read_object
from tests.contracts.memory_store import MemoryStore


def test_object_is_stored_once_under_its_hash() -> None:
    """The same bytes are stored as one object under their hash, and are read back unchanged."""
    store = MemoryStore()
    sha256 = put_object(store, "sales", "bundles", b"zip", ".zip")
    assert put_object(store, "sales", "bundles", b"zip", ".zip") == sha256 == hashlib.sha256(b"zip").hexdigest()
    assert list(store.values) == [f"registry/sales/bundles/{sha256}.zip"]
    assert read_object(store, "sales", "bundles", sha256, ".zip") == b"zip"


def test_changed_object_is_never_returned() -> None:
    """An object whose bytes do not match its name is reported as damage with its key."""
    store = MemoryStore()
    sha256 = put_object(store, "sales", "manifests", b"{}", ".json")
    store.replace(object_key("sales", "manifests", sha256, ".json"), b"{ }")
    with pytest.raises(RegistryDamaged, match=f"{sha256}.json was changed after it was stored"):
        read_object(store, "sales", "manifests", sha256, ".json")


def test_missing_object_is_damage() -> None:
    """A missing object that a record names is reported as damage with its key and a remedy."""
    with pytest.raises(RegistryDamaged, match=r"registry/sales/bundles/0+\.zip is missing \(push the same code"):
        read_object(MemoryStore(), "sales", "bundles", "0" * 64, ".zip")
