"""What the author of a job writes: its definition, params and queries, and how its files are read."""
