"""Days of many devices or workloads in arrays: sums, distributions and windows over any span."""
