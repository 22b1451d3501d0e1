"""Broker: placement on the node's GPUs, queue, leases, reservations, commands."""
