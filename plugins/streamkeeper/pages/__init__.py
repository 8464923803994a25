"""The page in Airflow's UI: what the store knows of every job, as HTML. It answers GET alone, and changes nothing."""
