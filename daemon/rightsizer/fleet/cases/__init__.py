"""Workloads as cases: read in batches, judged by the node's rules, summed to a fleet view."""
