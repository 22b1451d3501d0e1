"""The report: what the GPUs of a node did over a span, for whoever pays for them."""
