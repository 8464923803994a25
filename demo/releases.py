"""Edits of a job's file. Each edit makes another release."""

from __future__ import annotations

import msgspec

from harness.forms import EVENT_COPY, SALES_TOTALS
from harness.places import Places
from harness.producer import REFUND
from streamkeeper.errors import InvalidInput


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one job's file. Each text to replace must occur exactly once in the file."""

    job: str
    description: str
    replaces: tuple[tuple[str, str], ...]

    @property
    def reverse(self) -> Edit:
        """Return the edit that reverts this edit."""
        turned = tuple((new, old) for old, new in reversed(self.replaces))
        return Edit(job=self.job, description=f"back to before: {self.description}", replaces=turned)


COUNTED = ("@streaming_job(", '@F.udf("long")\ndef counted(amount):\n    return amount\n\n\n@streaming_job(')
"""Adds a Python function that returns what an amount counts for."""
PARTITIONED = Edit(
    job=EVENT_COPY,
    description="its files are partitioned by kind",
    replaces=(('format="parquet")', 'format="parquet", partition_by=["kind"])'),),
)
WITH_LARGEST = Edit(
    job=SALES_TOTALS,
    description="each customer's largest sale is kept too, and a Python function says what a sale counts for",
    replaces=(
        COUNTED,
        ("sales.groupBy(", 'sales.withColumn("amount", counted("amount")).groupBy('),
        ('.alias("squares"),', '.alias("squares"),\n        F.max("amount").alias("largest"),'),
    ),
)
COUNTED_OTHERWISE = Edit(
    job=SALES_TOTALS,
    description="the Python function below the state has another body, which means the same",
    replaces=(("    return amount\n", "    return int(amount)\n"),),
)
NO_REFUNDS = Edit(
    job=EVENT_COPY,
    description="its filter raises an error for a refund, a kind that there has not been so far",
    replaces=(
        (
            'F.col("event_id").isNotNull()',
            f'F.when(F.col("kind") == "{REFUND}", F.raise_error(F.lit("what is a refund?")))'
            '.otherwise(F.col("event_id").isNotNull())',
        ),
    ),
)


def edit(places: Places, change: Edit) -> str:
    """Change the demo's copy of the job; return a description. Raises InvalidInput for an unexpected file."""
    file = places.jobs / f"{change.job}.py"
    file.write_text(edited(file.read_text(), change))
    return f"{change.job}.py: {change.description}"


def edited(text: str, change: Edit) -> str:
    """Return the text after the change; raises InvalidInput unless it contains each replaced text exactly once."""
    for old, new in change.replaces:
        if text.count(old) != 1:
            raise InvalidInput(
                f"{change.job}.py does not hold {old!r} once", hint="the demo's edit and the job went apart"
            )
        text = text.replace(old, new)
    return text
