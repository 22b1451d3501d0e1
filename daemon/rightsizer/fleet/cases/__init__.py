"""Workloads as cases: read in batches, judged by the node's rules, and added up to a view."""
