"""What a change means for state and offsets, judged from two manifests. Pure: nothing here reads, writes or waits."""
