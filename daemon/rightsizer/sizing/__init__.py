"""What a workload needs, and which GPU or slice of one offers it; pure arithmetic."""
