"""Ways to read an estate out of a store: by our agents' own metrics, or by what others export."""
