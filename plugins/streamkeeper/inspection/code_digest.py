"""A digest of a Python function: its code, its closure, and everything of the job's own that it can reach.

The digest covers all that the function reaches. Each object is either hashed by value, or listed as one that reaches
nothing further (``inert``), or opaque, which the digest records. If code may reach files or modules of the bundle by
names that are not fixed, all of these are hashed.

The digest is equal in every process, for any hash seed and location of the code. Line numbers, comments, formatting and
docstrings matter only if the code reads them. Code of libraries is hashed by name, because the release's environment
fixes the versions. Everything outside of the bundle (files, services, the time of day) is not part of the code.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import NamedTuple

from streamkeeper.inspection.bundle_names import BundleNames
from streamkeeper.inspection.code_parts import CodeParts, Recording
from streamkeeper.inspection.inert import Reach
from streamkeeper.inspection.local_names import LocalNames, may_see_locals
from streamkeeper.inspection.met import Met
from streamkeeper.inspection.normal_reading import NormalReading
from streamkeeper.inspection.own_code import OwnCode
from streamkeeper.inspection.reading import Reading
from streamkeeper.inspection.routing import Routing
from streamkeeper.model.manifests.manifest import LOCAL_NAMES, REWRITTEN, UNREADABLE

_ROUTING_VERSION = 2
"""The version of routing digests. It is raised when the digests cover more of the code, because a digest of an older
version must not equal one that covers more.
"""


class NormalForms(NamedTuple):
    """Digests of one function. Each digest ignores one kind of difference between functions, and is empty if that kind
    of difference may matter.
    """

    renamed: str
    """The digest that ignores the names of local variables (``local_names``)."""
    rewritten: str
    """The digest of the function's behaviour, which ignores how the function is written (``normal_code``)."""


class CodeDigest:
    """Computes digests of functions; ``bundle_root``: the directory to which the job's code was unpacked."""

    def __init__(self, bundle_root: Path | None) -> None:
        self.own = OwnCode(bundle_root)
        self.parts = CodeParts(self.own)
        self._bundle: BundleNames | None = None

    def of(self, function: object) -> str:
        """Return the ``sha256`` of a function in hex. If the function's code can reach something that the digest does
        not cover, return ``unreadable:<sha256>``.
        """
        return self.read(function)[0]

    def read(self, function: object) -> tuple[str, tuple[str, ...]]:
        """Return a function's digest, and the strings in the function's code and values, including names of tables and
        paths.
        """
        reading = Recording(self.own, self.parts.texts)
        digest, texts = self._read(function, reading)
        self.parts.keep(digest, reading.noted)
        return digest, texts

    def routing(self, function: object) -> str:
        """Return the digest of the parts of a sink's function that may decide where rows are written (``routing``)."""
        return f"{_ROUTING_VERSION}:{self._read(function, Reading(self.own, Routing(function)))[0]}"

    def normal_forms(self, function: object) -> NormalForms:
        """Return the digests of a function that ignore differences in how the function is written."""
        renamed = Reading(self.own, LocalNames())
        digest, texts = self._read(function, renamed)
        seen = digest.startswith(UNREADABLE) or may_see_locals(renamed.met, texts)
        return NormalForms("" if seen else f"{LOCAL_NAMES}{digest}", self._rewritten(function, renamed.met))

    def _rewritten(self, function: object, met: Met) -> str:
        """Return the digest of the normal form; empty if the normal form is not proven to do the same.

        ``met``: what the walk over the code has met.
        """
        if self._bundle is None:
            self._bundle = BundleNames(self.own)
        lifetimes = self._bundle.lifetimes or met.foreign or met.reach >= Reach.ENVIRONMENT
        reading = NormalReading(self.own, self._bundle, lifetimes=lifetimes)
        try:
            digest, texts = self._read(function, reading)
        except Exception:  # without a proof there is no digest, whatever error the job's syntax or objects cause
            return ""
        seen = reading.sees_patterns or may_see_locals(reading.met, texts)
        return "" if seen or digest.startswith(UNREADABLE) else f"{REWRITTEN}{digest}"

    def _read(self, function: object, reading: Reading) -> tuple[str, tuple[str, ...]]:
        try:
            with warnings.catch_warnings(action="ignore"):
                whole = reading.whole(function)
            digest = hashlib.sha256(json.dumps(whole).encode()).hexdigest()
        except RecursionError:
            return f"{UNREADABLE}nested too deep", ()
        return f"{UNREADABLE}{digest}" if reading.met.unreadable else digest, tuple(sorted(reading.texts))
