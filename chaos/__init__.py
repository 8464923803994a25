"""Campaigns: kill, freeze and attack real and simulated jobs, and compare every row with the input."""
