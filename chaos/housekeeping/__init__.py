"""Commands that clean up, forget, restore or rebuild, and notices of the watch, killed at points without Spark."""
