"""Airflow's side: the form, the operators and triggers, and connections as secrets. The only room that imports it."""
