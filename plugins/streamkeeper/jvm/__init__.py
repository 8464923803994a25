"""Streamkeeper's Java classes in Spark's JVM. They are compiled on the machine that uses them."""
