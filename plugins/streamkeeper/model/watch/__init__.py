"""What the watch reports: health, incidents, rows of the fleet."""
