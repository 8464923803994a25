"""The demo of a job of which only the driver is on this machine's side: S3, executors of a cluster, PostgreSQL."""
