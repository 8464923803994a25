"""The edits of event_counts.py that make its releases in this demo."""

from __future__ import annotations

import msgspec

from demo.kafka.jobs import EVENT_COUNTS
from demo.kafka.jobs import WITH_LARGEST as WITH_LARGEST_COUNT
from demo.releases import COUNTED, Edit
from demo.releases import COUNTED_OTHERWISE as COUNTED_OTHERWISE_IN_TOTALS

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
        COUNTED,
        ('events.withWatermark("at"', 'events.withColumn("amount", counted("amount")).withWatermark("at"'),
    ),
)
COUNTED_OTHERWISE = msgspec.structs.replace(COUNTED_OTHERWISE_IN_TOTALS, job=EVENT_COUNTS)
COUNTED_TWICE = Edit(
    job=EVENT_COUNTS,
    description="a mistake: each event counts twice",
    replaces=(("    return int(amount)\n", "    return int(amount) * 2\n"),),
)
