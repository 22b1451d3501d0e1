"""What profilers write, read into one model."""
