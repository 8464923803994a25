"""The demo of a job with its driver on YARN, its checkpoint in HDFS and its table in PostgreSQL."""
