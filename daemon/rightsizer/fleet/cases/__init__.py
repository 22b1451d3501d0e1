"""Workloads as cases: read in batches, evaluated by the node's rules, added up to a fleet view."""
