"""Owners of GPU processes, one file each: Kubernetes, Slurm, containers, systemd, users."""
