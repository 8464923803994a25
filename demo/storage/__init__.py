"""The demo of a job with its checkpoint on S3, its tasks on a Spark cluster and its table in PostgreSQL."""
