"""``python -m streamkeeper.driver.describe``: prints a job file's manifests, without a release, a store or a started
query.

Arguments ``<root> <entry> <job> <params as JSON> <conf as JSON>``; secrets as for a driver. It prints query -> manifest
as JSON on stdout, which has no other output. On failure it prints ``error: …`` as the last line of stderr, and exits
with code REFUSED.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from streamkeeper.authoring.definition import load_job, validate_params
from streamkeeper.driver.faults import describe_fault
from streamkeeper.driver.job_loading import build_queries
from streamkeeper.driver.session import session_conf, start_session
from streamkeeper.model.coding import to_json
from streamkeeper.model.protocol.driver_messages import SECRETS, ExitCode, LaunchMode, LaunchSpec
from streamkeeper.model.redaction import redact
from streamkeeper.model.secret_references import substitute
from streamkeeper.system.hidden_secrets import hide_secrets

_PACKAGES = Path(__file__).resolve().parents[2]


def describe_file(spec: LaunchSpec, root: Path, secrets: Mapping[str, str]) -> bytes:
    """Build the job in the file ``spec.entry`` below ``root``. Return JSON that maps each query's name to its manifest.

    Raises the same errors as a driver that loads the job.
    """
    # Errors of the file itself are reported before a JVM starts.
    validate_params(load_job(root, spec.entry, spec.job).params, substitute(spec.params, secrets), job=spec.job)
    with TemporaryDirectory(prefix="streamkeeper-describe-") as scratch:
        filled = substitute(spec.conf, secrets)
        conf = session_conf(filled, Path(scratch), f"describe {spec.job}")
        secret = {key: conf[key] for key, value in spec.conf.items() if filled[key] != value}
        session = start_session(conf, secret, Path(scratch), [root, _PACKAGES])
        try:
            planned = build_queries(spec, root, session.spark, secrets)
        finally:
            session.spark.stop()
        return to_json({name: query.manifest for name, query in planned.items()})


def main(arguments: Sequence[str]) -> int:
    """Describe one job file; return the exit code."""
    secrets: dict[str, str] = json.loads(os.environ.pop(SECRETS, "") or "{}")
    hide_secrets(secrets)
    root, entry, job, params, conf = arguments
    # Output of the job's own code or of a library must not mix with the JSON.
    answer = os.dup(1)
    os.dup2(2, 1)
    spec = LaunchSpec(
        instance="describe",
        job=job,
        release="",
        mode=LaunchMode.DESCRIBE,
        bundle="",
        entry=entry,
        params=json.loads(params),
        conf=json.loads(conf),
        checkpoints="",
    )
    try:
        found = describe_file(spec, Path(root), secrets)
    except Exception as error:
        line = redact(describe_fault(error, Path(root)), secrets)
        sys.stderr.write(f"error: {' '.join(line.split())}\n")
        return ExitCode.REFUSED
    with os.fdopen(answer, "wb") as stream:
        stream.write(msgspec.json.format(found, indent=2) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
