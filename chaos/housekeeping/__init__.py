"""Commands that clean up, forget, restore or rebuild, and the notices of the watch, killed at failpoints without
Spark.
"""
