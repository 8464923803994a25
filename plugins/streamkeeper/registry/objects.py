"""Content-addressed objects of a job: bundles, manifests and reports, stored under the hash of their content."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from streamkeeper.errors import KeyExists, KeyMissing, RegistryDamaged
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point


def object_key(job: str, kind: str, sha256: str, suffix: str) -> str:
    """Return the key of an object: ``registry/<job>/<kind>/<sha256><suffix>``."""
    return f"registry/{job}/{kind}/{sha256}{suffix}"


def put_object(store: Store, job: str, kind: str, data: bytes, suffix: str) -> str:
    """Store ``data`` unless the store already contains it, and return its sha256; raises StoreUnavailable.

    ``store``: the store.
    ``job``: the job.
    ``kind``: the kind of object.
    ``data``: the content.
    ``suffix``: the suffix of the object's key, with its dot (``.zip``).
    """
    sha256 = hashlib.sha256(data).hexdigest()
    crash_point(f"object.{kind}.before")
    with suppress(KeyExists):
        store.create(object_key(job, kind, sha256, suffix), data)
    crash_point(f"object.{kind}.after")
    return sha256


def read_manifest(store: Store, job: str, sha256: str) -> Manifest:
    """Return the manifest with this hash, which describes a query in one of the job's releases.

    Raises RegistryDamaged if the manifest is missing or its content has another hash.
    """
    data = read_object(store, job, "manifests", sha256, ".json")
    return from_json(data, Manifest, where=f"manifest {sha256}")


def read_assessment(store: Store, job: str, sha256: str) -> Assessment:
    """Return the assessment with this hash, which an operation of the job made before any change.

    Raises RegistryDamaged if the assessment is missing or its content has another hash.
    """
    data = read_object(store, job, "reports", sha256, ".json")
    return from_json(data, Assessment, where=f"report {sha256}")


def read_object(store: Store, job: str, kind: str, sha256: str, suffix: str) -> bytes:
    """Return the object with this hash; raises RegistryDamaged if it is missing or its content has another hash.

    ``store``: the store.
    ``job``: the job.
    ``kind``: the kind of object.
    ``sha256``: the hash.
    ``suffix``: the suffix of the object's key, with its dot (``.zip``).
    """
    key = object_key(job, kind, sha256, suffix)
    try:
        data = store.read(key)
    except KeyMissing:
        raise RegistryDamaged(f"{key} is missing", hint="push the same code again to store the object again") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise RegistryDamaged(
            f"{key} was changed after it was stored: its content does not match the hash in its name",
            hint="put the original object back from a copy of the store",
        )
    return data
