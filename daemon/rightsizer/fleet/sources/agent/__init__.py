"""Fleet source: metrics of rightsizer agents, read back from a store."""
