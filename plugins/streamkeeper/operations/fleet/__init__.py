"""The watch over all jobs: what it observes, reports and starts again."""
