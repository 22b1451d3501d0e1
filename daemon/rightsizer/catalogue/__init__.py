"""What is known of GPUs before anything runs on them.

A file with faults is refused: a `ConfigurationError` with all of them, a line each.
"""
