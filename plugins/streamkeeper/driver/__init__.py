"""The process that owns Spark: it describes, stands by, claims its epoch, serves, drains and ends."""
