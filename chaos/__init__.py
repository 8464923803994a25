"""Campaigns that kill, freeze and attack real and simulated jobs, and compare every output row with the input."""
