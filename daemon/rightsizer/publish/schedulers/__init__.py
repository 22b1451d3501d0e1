"""What a node's GPUs are, as those who schedule want to be told: Slurm and Kubernetes."""
