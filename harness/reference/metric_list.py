"""Generates the page about metrics from the metric families that the endpoint serves."""

from __future__ import annotations

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from harness.reference.markdown import code, page, prose, table
from streamkeeper.system.metrics import Fleet, metric_families

_INTRODUCTION = """
`streamkeeper metrics --listen 127.0.0.1:9464` serves the metrics of all jobs; with `STREAMKEEPER_DRIVER_METRICS` each
driver serves its own as well. Scrape both with `honor_labels: true`: otherwise Prometheus renames the label `job`, and
an alert merges all jobs. [deploy/prometheus-alerts.yml](../../deploy/prometheus-alerts.yml) has an alert for each
[health rule](health-rules.md) of severity `page` or `ticket`.

A metric without a value is absent: a query has no batch metrics before its first commit since the driver started.
"""


def render_metrics() -> str:
    """Return the text of docs/reference/metrics.md."""
    families = metric_families(Fleet(watch_pass=0.0, store_up=True))
    rows = [(code(_stored_name(each)), each.type, _labels(each), prose(each.documentation)) for each in families]
    return page("Metrics", _INTRODUCTION, table(("metric", "type", "labels", "meaning"), rows))


def _stored_name(family: Metric) -> str:
    return f"{family.name}_total" if isinstance(family, CounterMetricFamily) else family.name


def _labels(family: Metric) -> str:
    return ", ".join(code(each) for each in getattr(family, "_labelnames", ()))
