"""How the parts of the node hang together, from sysfs and what the driver says of it."""
