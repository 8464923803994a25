"""The Airflow side: forms, operators, triggers, and connections as secrets. The only package that imports Airflow."""
