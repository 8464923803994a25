"""Java of our own in Spark's JVM, compiled where it is used."""
