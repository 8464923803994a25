"""The names in Spark's JVM that may change between versions. They are all in this module, taken from the code of Spark
4.2.0.
"""

from __future__ import annotations

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
"""Nodes that keep no state on a stream. A streaming node of another class counts as an unknown stateful operator."""


def keeps_state(name: str, streaming: bool, below: list[bool]) -> bool:
    """Whether a node may keep state on a stream. A class that is not listed here counts as a class that keeps state.

    ``below``: for each child, whether it is streaming. A join keeps state only if both sides are streaming.
    """
    if not streaming:
        return False
    if name == JOIN:
        return all(below)
    return name not in STATELESS | STREAMING_RELATIONS | {WATERMARK}


STATIC_FILES = "LogicalRelation"
STATIC_ROWS = frozenset({"LogicalRDD", "LocalRelation"})
PYTHON_EVALUATION = frozenset({"ArrowEvalPython", "BatchEvalPython"})
"""Nodes that add the results of Python functions to each row, and neither add nor remove rows."""

PYTHON_FUNCTIONS = frozenset({"PythonUDF", "PythonUDAF", "PythonUDTF"})
JVM_FUNCTIONS = frozenset({"ScalaUDF", "ScalaUDAF", "HiveSimpleUDF", "HiveGenericUDF", "ScalaAggregator"})

LAMBDA = "LambdaFunction"
LAMBDA_VARIABLE = "NamedLambdaVariable"

UNSTABLE_FIELDS = frozenset({"dataframeId", "nodeId", "queryContext", "initQueryContext", "resultId"})
"""Arguments that differ between two builds of the same query, in any node."""

UNSTABLE_ARGUMENTS = frozenset(
    {
        # Every batch gets a new seed (IncrementalExecution), so the seed in the plan never counts.
        ("Rand", "child"),
        ("Randn", "child"),
        ("RandStr", "seedExpression"),
        ("Shuffle", "randomSeed"),
        ("Uniform", "seedExpression"),
        ("Uuid", "randomSeed"),
        # Ids distinguish lambda variables. Each also has a number in its name, and a cell for its value.
        (LAMBDA_VARIABLE, "name"),
        (LAMBDA_VARIABLE, "value"),
        # The type follows from the arguments.
        ("Greatest", "dataType"),
        ("Least", "dataType"),
        # The size and age of a table change, but it is still the same table.
        ("CatalogTable", "createTime"),
        ("CatalogTable", "lastAccessTime"),
        ("CatalogTable", "stats"),
        # What it refers to has a digest of its own (inspection.functions).
        ("LogicalRDD", "rdd"),
        ("LogicalRDD", "outputPartitioning"),
        ("LogicalRDD", "outputOrdering"),
        # Every build draws a new seed, unless the job sets it.
        ("Sample", "seed"),
        # Given once for the analysis and never used again.
        ("ScalarSubquery", "exprId"),
        ("ListQuery", "exprId"),
        ("Exists", "exprId"),
        ("DataSource", "sparkSession"),
    }
)
"""Pairs of class and argument that differ between two builds of a query, or that do not affect the rows."""
