"""The names of the exported metrics, and those that an expression refers to."""

from __future__ import annotations

import re

from prometheus_client.metrics_core import CounterMetricFamily

from streamkeeper.system.metrics import Fleet, metric_families


def metric_names() -> set[str]:
    """Return the names of all metrics as Prometheus stores them."""
    families = metric_families(Fleet(watch_pass=0.0, store_up=True))
    return {f"{each.name}_total" if isinstance(each, CounterMetricFamily) else each.name for each in families}


def named_in(expression: str) -> set[str]:
    """Return all names in an expression that start with ``streamkeeper_``."""
    return set(re.findall(r"\bstreamkeeper_\w+", expression))
