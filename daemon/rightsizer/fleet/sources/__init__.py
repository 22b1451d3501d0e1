"""Fleet sources: metrics of agents and dcgm-exporter, Kubernetes, Slurm, serving engines."""
