"""Names inside Spark's JVM that move between versions; nothing else in Streamkeeper knows them. Read on Spark 4.2.0."""

from __future__ import annotations

FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})

V1_RELATION = "StreamingRelation"
V2_RELATION = "StreamingRelationV2"
STREAMING_RELATIONS = frozenset({V1_RELATION, V2_RELATION})

AGGREGATE = "Aggregate"
AGGREGATE_EXPRESSION = "AggregateExpression"
JOIN = "Join"
GLOBAL_LIMIT = "GlobalLimit"
WATERMARK = "EventTimeWatermark"
DEDUPLICATES = {"Deduplicate": "deduplicate", "DeduplicateWithinWatermark": "deduplicate-within-watermark"}
PANDAS_WITH_STATE = "FlatMapGroupsInPandasWithState"
TRANSFORMS_WITH_STATE = frozenset(
    {"TransformWithStateInPySpark", "TransformWithStateInPandas", "TransformWithState", "FlatMapGroupsWithState"}
)

STATELESS = frozenset(
    {
        "AppendColumns",
        "ArrowEvalPython",
        "BatchEvalPython",
        "CollectMetrics",
        "DeserializeToObject",
        "Expand",
        "Filter",
        "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "Generate",
        "LocalLimit",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "SerializeFromObject",
        "Sort",
        "SubqueryAlias",
        "TypedFilter",
        "Union",
        "View",
        "WithCTE",
    }
)
"""Nodes that keep no state on a stream; a streaming node of another class is an operator nobody has measured."""


def keeps_state(name: str, streaming: bool, below: list[bool]) -> bool:
    """Whether a node may keep state on a stream; a class not known here counts as one that does.

    ``below``: whether each child is streaming; a join keeps state only where both sides are.
    """
    if not streaming:
        return False
    if name == JOIN:
        return all(below)
    return name not in STATELESS | STREAMING_RELATIONS | {WATERMARK}


STATIC_FILES = "LogicalRelation"
STATIC_ROWS = frozenset({"LogicalRDD", "LocalRelation"})
PYTHON_FUNCTIONS = frozenset({"PythonUDF", "PythonUDAF", "PythonUDTF"})
JVM_FUNCTIONS = frozenset({"ScalaUDF", "ScalaUDAF", "HiveSimpleUDF", "HiveGenericUDF", "ScalaAggregator"})

EXPR_ID = "org.apache.spark.sql.catalyst.expressions.ExprId"
LAMBDA_VARIABLE = "NamedLambdaVariable"
SEEDED = frozenset({"Rand", "Randn", "RandStr", "Uniform", "Uuid", "Shuffle"})
UNSTABLE_FIELDS = frozenset(
    {"__dataset_id", "jvmId", "nodeId", "nonInheritableMetadataKeys", "qualifier", "randomSeed"}
)
"""Fields of a plan's JSON that differ between two builds of the same query, or that only name things."""

CURRENT_TIME = frozenset({"CurrentDate", "CurrentTimestamp", "CurrentTime", "LocalTimestamp", "Now"})
