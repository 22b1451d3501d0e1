"""What our own agents export, read back from a store."""
