"""The page in Airflow's UI: the records of every job as HTML. It answers only GET requests and changes nothing."""
