"""Recovery of one job: diagnosis, restart, restore, and the rebuild of lost journals."""
