"""Tests that a driver runs exactly the queries that were checked, including those that an older version described or
masked differently.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from streamkeeper.driver.job_loading import check_again, check_manifests
from streamkeeper.errors import JobUnusable, PermanentError
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.model.redaction import redact_everywhere, redact_value
from streamkeeper.registry.objects import put_object
from streamkeeper.stores.local import LocalStore
from tests.model.test_yesterday import YESTERDAY

SECRETS = {"secret://env/LOGIN": "app"}
FOUND = msgspec.structs.replace(
    from_json((YESTERDAY / "manifest.json").read_bytes(), Manifest, where="manifest"),
    output_mode="append",
    plan="Relation app.sales",
)


def spec_of(expected: dict[str, str]) -> LaunchSpec:
    """Return the launch of an instance that expects the manifests with these digests."""
    return LaunchSpec(
        instance="i",
        job="j",
        release="r0001",
        mode=LaunchMode.STANDBY,
        bundle="",
        entry="j.py",
        params={},
        conf={},
        checkpoints="",
        expected_manifests=expected,
    )


def check(place: Path, stored: bytes, secrets: dict[str, str], found: Manifest = FOUND) -> None:
    store = LocalStore(place)
    spec = spec_of({"totals": put_object(store, "j", "manifests", stored, ".json")})
    check_manifests(spec, {"totals": redact_value(found, secrets)}, store, secrets)


def test_an_older_manifest_with_masks_inside_of_words_is_accepted(tmp_path: Path) -> None:
    """A driver accepts a manifest that an older version stored with masks inside of words, such as ``***end`` for
    ``append``; without the secret it refuses it.
    """
    stored = redact_everywhere(to_json(FOUND).decode(), SECRETS).encode()
    assert b"***end" in stored
    check(tmp_path, stored, SECRETS)
    with pytest.raises(PermanentError, match="builds queries that differ from those that were checked: totals"):
        check(tmp_path, stored, {})


def test_a_manifest_with_present_masks_is_accepted_and_a_different_plan_refused(tmp_path: Path) -> None:
    """A manifest that is masked in the present way is accepted, and one with a different plan is refused."""
    check(tmp_path, to_json(redact_value(FOUND, SECRETS)), SECRETS)
    with pytest.raises(PermanentError):
        check(tmp_path, to_json(msgspec.structs.replace(FOUND, plan="Relation other")), SECRETS)


def test_a_release_checked_with_a_different_spark_is_refused_with_both_versions(tmp_path: Path) -> None:
    """A release that was checked with a different Spark version is refused with both versions and the advice to
    deploy.
    """
    stored = to_json(msgspec.structs.replace(FOUND, spark_version="4.1.4"))
    with pytest.raises(
        PermanentError, match=r"was checked under Spark 4\.1\.4, but this is Spark .*streamkeeper deploy j"
    ):
        check(tmp_path, stored, {})


def test_a_release_checked_with_different_settings_is_refused_with_their_names(tmp_path: Path) -> None:
    """A release that was checked with different settings is refused with their names, for example after the checkpoints
    were moved off S3.
    """
    stored = to_json(msgspec.structs.replace(FOUND, confs={**FOUND.confs, "spark.hadoop.fs.s3a.endpoint": "a value"}))
    with pytest.raises(
        PermanentError, match=r"was checked with other values of these settings: spark\.hadoop\.fs\.s3a\.endpoint"
    ):
        check(tmp_path, stored, {})


def test_an_older_manifest_with_an_unmasked_url_password_is_accepted(tmp_path: Path) -> None:
    """A driver accepts a manifest of an older version that did not mask the password of a URL inside of the plan; a
    different plan is refused.
    """
    secrets = {"secret://env/WAREHOUSE": "postgresql://app:s3cr3t-pw@db/sales"}
    leaky = msgspec.structs.replace(FOUND, plan="Filter (token = s3cr3t-pw)")
    assert "s3cr3t" not in redact_value(leaky, secrets).plan
    check(tmp_path, to_json(leaky), secrets, leaky)
    with pytest.raises(PermanentError, match="builds queries that differ from those that were checked: totals"):
        check(tmp_path, to_json(leaky), secrets, msgspec.structs.replace(leaky, plan="Filter (token = other)"))


def test_code_digests_of_an_older_definition_are_not_compared(tmp_path: Path) -> None:
    """Code digests that an older version computed by a different definition are not compared; digests of the same
    definition and other differences are.
    """
    found = msgspec.structs.replace(FOUND, functions={"above/0 rate": "new"}, digests=2)
    stored = msgspec.structs.replace(found, functions={"above/0 rate": "old"}, digests=1)
    check(tmp_path, to_json(stored), {}, found)
    with pytest.raises(PermanentError, match="builds queries that differ from those that were checked: totals"):
        check(tmp_path, to_json(msgspec.structs.replace(stored, digests=2)), {}, found)
    with pytest.raises(PermanentError, match="builds queries that differ from those that were checked: totals"):
        check(tmp_path, to_json(stored), {}, msgspec.structs.replace(found, plan="Relation other"))


def moved(*, plan: str = FOUND.plan, **changes: str) -> Manifest:
    """Return the same query with a changed plan or output."""
    return msgspec.structs.replace(FOUND, plan=plan, sink=msgspec.structs.replace(FOUND.sink, **changes))


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"totals": moved(server="dbname=first", plan="Relation other")}, "query totals differs in plan"),
        ({"totals": FOUND, "more": FOUND}, "query more is new"),
        ({}, "query totals is missing"),
        (
            {"totals": moved(output="postgresql://#totals", server="dbname=second")},
            r"query totals of job j: after the restart its output is postgresql://#totals \(dbname=second\), not",
        ),
    ],
)
def test_a_restarted_driver_refuses_changed_queries_and_names_the_difference(
    now: dict[str, Manifest], told: str
) -> None:
    """A restarted driver refuses queries that differ from its first start, and names the difference, such as the plan,
    a new or missing query, or an output in a different database.
    """
    before = {"totals": moved(server="dbname=first")}
    check_again(spec_of({}), before, before, {})
    with pytest.raises(JobUnusable, match=told):
        check_again(spec_of({}), now, before, {})


def test_a_driver_is_started_again_after_an_upgrade(tmp_path: Path) -> None:
    """A driver that restarts after an upgrade ignores descriptions that the older version did not have or masked less,
    but not different functions of the same digest definition.
    """
    now = msgspec.structs.replace(
        FOUND, output_shape=("join",), sink_routing={"f": "d"}, functions={"0 f": "n"}, digests=2
    )
    before = msgspec.structs.replace(FOUND, functions={"0 f": "o"}, digests=1)
    check_again(spec_of({}), {"totals": now}, {"totals": before}, {})
    secrets = {"secret://env/WAREHOUSE": "postgresql://app:s3cr3t-pw@db/sales"}
    leaky = msgspec.structs.replace(FOUND, plan="Filter (token = s3cr3t-pw)")
    check_again(spec_of({}), {"totals": redact_value(leaky, secrets)}, {"totals": leaky}, secrets)
    with pytest.raises(JobUnusable, match="differs in functions"):
        check_again(spec_of({}), {"totals": now}, {"totals": msgspec.structs.replace(before, digests=2)}, {})
