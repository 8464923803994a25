"""What the tests, the demo and the benchmarks share: servers, Airflow, folders to run in, a continuous input, and the
ledger.
"""
