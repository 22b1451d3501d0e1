"""Readers of a fleet: metrics of agents and dcgm-exporter, Kubernetes, Slurm, serving engines."""
