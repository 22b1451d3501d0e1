"""The broker of the node's GPUs, wired."""
