"""Readers of a fleet from a store.

The agents' own metrics, dcgm-exporter, Kubernetes, Slurm, serving engines.
"""
