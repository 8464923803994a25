"""What Spark says of a query that was not started: its manifest, and a rehearsal on a copy of its checkpoint."""
