"""What a person asks for: deploys and recoveries, and the limits of their fields."""
