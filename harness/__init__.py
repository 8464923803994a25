"""What tests, demo and bench share: servers, Airflow, places to run in, input that keeps coming, and the ledger."""
