"""GPU broker of a node: placement, queue, leases, reservations and commands."""
