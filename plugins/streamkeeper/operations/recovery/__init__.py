"""Recovery of one job: diagnosis, restart, restore, and journals that were lost."""
