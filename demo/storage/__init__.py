"""The demo of a job with only its driver on this machine: S3, cluster executors, PostgreSQL."""
