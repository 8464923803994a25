"""The demo: real Airflow, real drivers, a producer, and a ledger that says whether a row was lost or doubled."""
