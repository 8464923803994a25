"""The demo of a job that runs entirely on servers: YARN, HDFS, PostgreSQL."""
