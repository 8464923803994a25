"""The process and its machine: clock, crash points, private files, Java, secrets, metrics."""
