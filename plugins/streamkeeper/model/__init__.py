"""The vocabulary as values: frozen, comparable, stored as JSON. Nothing here reads, writes or waits."""
