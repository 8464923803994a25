"""What happens next, decided from what is seen. Pure: nothing here reads, writes or waits."""
