"""Streamkeeper's Java classes in Spark's JVM, compiled where they are used."""
