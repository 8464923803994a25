"""The demo on Kafka: a real broker, a process that keeps writing events, and two jobs that read them."""
