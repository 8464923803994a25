"""The demo of a job from Kafka to a Delta table on S3, with its tasks on a Spark cluster."""
