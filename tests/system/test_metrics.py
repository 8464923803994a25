"""Tests the metrics of jobs in Prometheus' text format, and the endpoint that returns them."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamkeeper.errors import InvalidInput
from streamkeeper.model.coding import from_json
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus, QueryStatus
from streamkeeper.model.protocol.signals import QuerySignals, SourceSignals
from streamkeeper.model.watch.health import BackupLook, Symptom, Urgency
from streamkeeper.system.metrics import Fleet, JobSample, Listen, of_driver, read_listen, render_metrics, serve_metrics

SECRET = "hunter22"
ROOT = Path(__file__).resolve().parents[2]
SIGNALS = QuerySignals(
    batch=7,
    batch_s=1.5,
    usual_batch_s=0.5,
    trigger_s=5.0,
    scheduling_delay_s=0.25,
    checkpoint_write_s=0.125,
    state_rows=10,
    state_memory_bytes=4272,
    dropped_rows=2,
    checkpoint_bytes=20480,
    repaired_stores=1,
    last_trigger=1795000001.5,
    last_commit=1795000000.5,
    open_since=1795000002.5,
    sources=(
        SourceSignals(source=f"KafkaV2[Subscribe[{SECRET}]]", lag_records=70, lag_s=35.0, runway_s=7200.0),
        SourceSignals(source="KafkaV2[Subscribe[b]]", lag_records=5, lag_s=2.0, runway_s=900.0),
        SourceSignals(source="FileStreamSource[file:/in]", lag_files=3, lag_s=20.0),
    ),
)


def status(*queries: QueryStatus, state: DriverState = DriverState.SERVING) -> DriverStatus:
    return DriverStatus(
        instance="op-1-candidate",
        release="r0003",
        generation=3,
        state=state,
        beat=12,
        at="2026-11-22T00:00:00Z",
        queries={each.query: each for each in queries},
        error=SECRET,
        warm_up=SECRET,
        spark="4.2.0",
    )


def query(name: str = "totals", signals: QuerySignals = SIGNALS) -> QueryStatus:
    return QueryStatus(
        query=name, version="v0002", epoch=4, rows=100, failures=1, error=SECRET, offsets=(SECRET,), signals=signals
    )


def samples(text: str) -> dict[str, float]:
    """Return the value of each ``name{label="value"}``, read by Prometheus' own parser of its text format."""
    found = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(each.labels.items()))
            found[f"{each.name}{{{labels}}}"] = each.value
    return found


def test_every_signal_has_its_metric() -> None:
    """Every signal of a driver is rendered as a metric with its name, unit and value; query metrics have only the
    labels job, query and version.
    """
    told = samples(render_metrics(of_driver("sales", status(query()))))
    of_query = '{job="sales",query="totals",version="v0002"}'
    values = {
        "query_lag_records": 75,
        "query_lag_files": 3,
        "query_lag_seconds": 35.0,
        "batch_duration_seconds": 1.5,
        "batch_duration_usual_seconds": 0.5,
        "trigger_interval_seconds": 5.0,
        "scheduling_delay_seconds": 0.25,
        "checkpoint_write_seconds": 0.125,
        "checkpoint_size_bytes": 20480,
        "state_rows": 10,
        "state_memory_bytes": 4272,
        "source_runway_seconds": 900.0,
        "last_commit_timestamp_seconds": 1795000000.5,
        "last_trigger_timestamp_seconds": 1795000001.5,
        "batch_open_since_timestamp_seconds": 1795000002.5,
        "query_failures_in_a_row": 1,
        "input_rows_total": 100,
        "rows_dropped_by_watermark_total": 2,
        "state_stores_repaired_total": 1,
    }
    expected = {f"streamkeeper_{name}{of_query}": value for name, value in values.items()}
    expected |= {
        'streamkeeper_job_info{job="sales",release="r0003",spark="4.2.0"}': 1,
        'streamkeeper_job_serving{job="sales"}': 1,
        'streamkeeper_restarts_total{job="sales"}': 2,
        'streamkeeper_heartbeats_total{job="sales"}': 12,
    }
    assert told == expected


def test_unknown_values_have_no_metric_instead_of_zero() -> None:
    """Unknown values have no metric instead of 0: a driver of an older version has no lag, and a job without a driver
    has no restarts.
    """
    old = samples(render_metrics(of_driver("sales", status(query(signals=QuerySignals())))))
    of_query = [name for name in old if "query=" in name]
    assert {name.partition("{")[0] for name in of_query} == {
        "streamkeeper_query_failures_in_a_row",
        "streamkeeper_input_rows_total",
        "streamkeeper_rows_dropped_by_watermark_total",
        "streamkeeper_state_stores_repaired_total",
    }
    assert samples(render_metrics(Fleet(jobs=(JobSample(job="orders"),)))) == {
        'streamkeeper_job_info{job="orders",release="",spark=""}': 1
    }
    assert samples(render_metrics(Fleet())) == {}


def test_a_fleet_has_metrics_for_symptoms_snapshot_ages_and_last_watch() -> None:
    """A fleet has one series for each symptom, the ages of the newest and of the newest verified snapshot, and the time
    of the last watch pass.
    """
    jobs = (
        JobSample(job="sales", serving=True, status=status(query()), backups={"totals": BackupLook(age_s=60.0)}),
        JobSample(job="orders", serving=False, backups={"copy": BackupLook(age_s=10.0, verified_age_s=90.0)}),
    )
    found = Symptom(
        rule="stalled", severity=Urgency.PAGE, job="sales", query="totals", cause=SECRET, action=SECRET, heading="h"
    )
    told = samples(render_metrics(Fleet(jobs=jobs, symptoms=(found,), watch_pass=1795000000.0, store_up=True)))
    assert (
        told.items()
        >= {
            'streamkeeper_symptom{job="sales",query="totals",rule="stalled",severity="page"}': 1,
            'streamkeeper_snapshot_age_seconds{job="sales",query="totals",verified="false"}': 60.0,
            'streamkeeper_snapshot_age_seconds{job="orders",query="copy",verified="true"}': 90.0,
            'streamkeeper_job_serving{job="orders"}': 0,
            "streamkeeper_watch_pass_timestamp_seconds{}": 1795000000.0,
            "streamkeeper_store_up{}": 1,
        }.items()
    )
    assert 'streamkeeper_snapshot_age_seconds{job="sales",query="totals",verified="true"}' not in told


def test_no_metric_contains_errors_offsets_or_source_descriptions_of_a_job() -> None:
    """No metric contains a job's errors, offsets, source descriptions or causes, because these may contain a secret."""
    fleet = of_driver("sales", status(query()))
    found = Symptom(rule="sink-down", severity=Urgency.PAGE, job="sales", cause=SECRET, action=SECRET, heading=SECRET)
    text = render_metrics(Fleet(jobs=fleet.jobs, symptoms=(found,)))
    assert "sink-down" in text
    assert SECRET not in text
    assert SECRET in str(fleet)


def test_no_metric_label_grows_with_every_batch_or_driver_run() -> None:
    """Metrics have no label that grows with every batch or driver run, such as a batch, an instance or an epoch."""
    text = render_metrics(of_driver("sales", status(query(), query("copies"))))
    labels = {
        name for family in text_string_to_metric_families(text) for each in family.samples for name in each.labels
    }
    assert labels == {"job", "query", "version", "release", "spark"}


def test_the_stored_status_of_an_older_release_is_rendered_as_metrics() -> None:
    """The stored status of a driver of an older release is rendered with the metrics that it has."""
    stored = (ROOT / "tests/model/yesterday/control/status.json").read_bytes()
    old = from_json(stored, DriverStatus, where="status")
    assert 'streamkeeper_input_rows_total{job="sales",query="totals",version="v0001"}' in samples(
        render_metrics(of_driver("sales", old))
    )


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("9464", Listen(address="127.0.0.1", first=9464, last=9464)),
        ("127.0.0.1:9464", Listen(address="127.0.0.1", first=9464, last=9464)),
        ("0.0.0.0:9470-9569", Listen(address="0.0.0.0", first=9470, last=9569)),
        ("[::1]:9464", Listen(address="::1", first=9464, last=9464)),
    ],
)
def test_a_metrics_address_without_a_host_means_the_loopback_address(text: str, listen: Listen) -> None:
    """An address for metrics without a host means the loopback address, because the endpoint has no password."""
    assert read_listen(text, where="--listen") == listen


@pytest.mark.parametrize(
    "text", ["", "metrics", "127.0.0.1", "127.0.0.1:0", "9470-9464", "1:99999", "tcp://10.0.0.1:9464/"]
)
def test_an_invalid_metrics_address_is_refused_with_the_name_of_the_option(text: str) -> None:
    """An invalid address for metrics is refused in one line that names the option."""
    with pytest.raises(InvalidInput, match="--listen: .* is not an address and port"):
        read_listen(text, where="--listen")


def test_the_endpoint_returns_current_values_on_the_first_free_port() -> None:
    """The endpoint returns current values on the first free port of its range; if all ports are taken, it fails with a
    clear error.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot listen on 127.0.0.1:{first}"):
            serve_metrics(Listen(address="127.0.0.1", first=first, last=first), Fleet)
        beats = iter(range(100))
        port, thread = serve_metrics(
            Listen(address="127.0.0.1", first=first, last=first + 50),
            lambda: Fleet(watch_pass=float(next(beats))),
        )
        assert first < port <= first + 50
        assert thread.daemon
        told = [samples(read(port))["streamkeeper_watch_pass_timestamp_seconds{}"] for _ in range(2)]
        assert told == [0.0, 1.0]


def read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.read().decode()
