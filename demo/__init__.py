"""The demo. It runs a real Airflow, real drivers, a producer, and a ledger that counts lost and duplicated rows."""
