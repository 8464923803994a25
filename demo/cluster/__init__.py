"""The demo of a job of which nothing is on this machine's side: YARN, HDFS, PostgreSQL."""
