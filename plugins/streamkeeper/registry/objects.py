"""Content-addressed objects of a job: bundles, manifests and reports, stored under the hash of their content."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from streamkeeper.crash_points import crash_point
from streamkeeper.errors import KeyExists, KeyMissing, RegistryDamaged
from streamkeeper.model.coding import from_json
from streamkeeper.model.finding import Assessment
from streamkeeper.model.manifest import Manifest
from streamkeeper.stores.contract import Store


def object_key(job: str, kind: str, sha256: str, suffix: str) -> str:
    """``registry/<job>/<kind>/<sha256><suffix>``."""
    return f"registry/{job}/{kind}/{sha256}{suffix}"


def put_object(store: Store, job: str, kind: str, data: bytes, suffix: str) -> str:
    """Store ``data`` once and return its sha256; raises StoreUnavailable.

    ``store``: the store.
    ``job``: the job.
    ``kind``: the kind of object.
    ``data``: the content.
    ``suffix``: with its dot (``.zip``).
    """
    sha256 = hashlib.sha256(data).hexdigest()
    crash_point(f"object.{kind}.before")
    with suppress(KeyExists):
        store.create(object_key(job, kind, sha256, suffix), data)
    crash_point(f"object.{kind}.after")
    return sha256


def read_manifest(store: Store, job: str, sha256: str) -> Manifest:
    """A manifest by which a release of the job has described itself; raises RegistryDamaged like read_object."""
    data = read_object(store, job, "manifests", sha256, ".json")
    return from_json(data, Manifest, where=f"manifest {sha256}")


def read_assessment(store: Store, job: str, sha256: str) -> Assessment:
    """The assessment that an operation made before it changed anything; raises RegistryDamaged like read_object."""
    data = read_object(store, job, "reports", sha256, ".json")
    return from_json(data, Assessment, where=f"report {sha256}")


def read_object(store: Store, job: str, kind: str, sha256: str, suffix: str) -> bytes:
    """The object with this hash; raises RegistryDamaged if it is missing or differs from the stored one.

    ``store``: the store.
    ``job``: the job.
    ``kind``: the kind of object.
    ``sha256``: the hash.
    ``suffix``: with its dot (``.zip``).
    """
    key = object_key(job, kind, sha256, suffix)
    try:
        data = store.read(key)
    except KeyMissing:
        raise RegistryDamaged(f"{key} is missing", hint="pushing the same code again stores it again") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise RegistryDamaged(f"{key} does not hold what its name says: it was changed after it was stored")
    return data
