"""What is known of one job: its installation, records, drivers, inputs and outputs."""
