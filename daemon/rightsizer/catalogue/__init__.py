"""Static data about GPUs: boards, prices and performance ratios.

A faulty file is rejected with one `ConfigurationError` that lists all faults, one per line.
"""
