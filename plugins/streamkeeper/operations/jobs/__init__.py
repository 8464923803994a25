"""The facts about one job: its installation, records, drivers, inputs and outputs."""
