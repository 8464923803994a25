"""Compares verdicts with what Spark really does: changes of jobs, their measured outcomes, and the score of the
check.
"""
