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
PYTHON_EVALUATION = frozenset({"ArrowEvalPython", "BatchEvalPython"})
"""Nodes that put what Python functions return beside each row; no row comes or goes."""

PYTHON_FUNCTIONS = frozenset({"PythonUDF", "PythonUDAF", "PythonUDTF"})
JVM_FUNCTIONS = frozenset({"ScalaUDF", "ScalaUDAF", "HiveSimpleUDF", "HiveGenericUDF", "ScalaAggregator"})

LAMBDA = "LambdaFunction"
LAMBDA_VARIABLE = "NamedLambdaVariable"

UNSTABLE_FIELDS = frozenset({"dataframeId", "nodeId", "queryContext", "initQueryContext", "resultId"})
"""Arguments that differ between two builds of the same query, whatever node they belong to."""

UNSTABLE_ARGUMENTS = frozenset(
    {
        # Every batch gets a new seed (IncrementalExecution), so the one in the plan never counts.
        ("Rand", "child"),
        ("Randn", "child"),
        ("RandStr", "seedExpression"),
        ("Shuffle", "randomSeed"),
        ("Uniform", "seedExpression"),
        ("Uuid", "randomSeed"),
        # Lambda variables are told apart by their ids; each has a number in its name, and a cell for its value.
        (LAMBDA_VARIABLE, "name"),
        (LAMBDA_VARIABLE, "value"),
        # It follows from their arguments.
        ("Greatest", "dataType"),
        ("Least", "dataType"),
        # A table's size and age move while it stays the same table.
        ("CatalogTable", "createTime"),
        ("CatalogTable", "lastAccessTime"),
        ("CatalogTable", "stats"),
        # What is behind it is digested by itself (inspection.functions).
        ("LogicalRDD", "rdd"),
        ("LogicalRDD", "outputPartitioning"),
        ("LogicalRDD", "outputOrdering"),
        # Drawn anew for every build, unless the job gives one.
        ("Sample", "seed"),
        # Once for the analysis, and never again.
        ("ScalarSubquery", "exprId"),
        ("ListQuery", "exprId"),
        ("Exists", "exprId"),
        ("DataSource", "sparkSession"),
    }
)
"""(class, argument) that differs between two builds of the same query, or that says nothing of its rows."""
