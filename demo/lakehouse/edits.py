"""The edits of event_counts.py that make its releases in this demo."""

from __future__ import annotations

from demo.kafka.jobs import EVENT_COUNTS
from demo.kafka.jobs import WITH_LARGEST as WITH_LARGEST_COUNT
from demo.releases import Edit

TO_DELTA = Edit(
    job=EVENT_COUNTS,
    description="its output is a Delta table",
    replaces=(
        ("Query, TableSink,", "DeltaSink, Query,"),
        (
            'sink=TableSink(params["warehouse"], table="event_counts", key=["customer", "minute"])',
            'sink=DeltaSink(params["warehouse"], key=["customer", "minute"])',
        ),
    ),
)
WITH_LARGEST = Edit(
    job=EVENT_COUNTS,
    description="each minute's largest amount is kept too, and a Python function says what an event counts for",
    replaces=(
        *WITH_LARGEST_COUNT.replaces,
        ("@streaming_job(", '@F.udf("long")\ndef counted(amount):\n    return amount\n\n\n@streaming_job('),
        ('events.withWatermark("at"', 'events.withColumn("amount", counted("amount")).withWatermark("at"'),
    ),
)
COUNTED_OTHERWISE = Edit(
    job=EVENT_COUNTS,
    description="the Python function below the state has another body, which means the same",
    replaces=(("    return amount\n", "    return int(amount)\n"),),
)
COUNTED_TWICE = Edit(
    job=EVENT_COUNTS,
    description="a mistake: each event counts twice",
    replaces=(("    return int(amount)\n", "    return int(amount) * 2\n"),),
)
