"""The process that owns Spark: it describes the job, waits as a standby, claims its epoch, runs the queries, drains
them and exits.
"""
