"""Tests that share one Airflow, one job and its releases, on one worker.

Each file finds the job running, whatever ran before it. The files run in the order of their names: the release that
``interrupted`` deploys names approvers, so tests that answer as Airflow's own user come before it; the 1,500 jobs come
last.
"""
