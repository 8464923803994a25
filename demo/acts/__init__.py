"""The acts of the demo. Each act changes or kills the running jobs and states the expected outcome."""
