"""Deploys, starts and stops of one job, from admission to the last step."""
