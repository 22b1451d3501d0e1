"""A week of arrivals at the broker of a node, beside other ways of sharing its GPUs."""
