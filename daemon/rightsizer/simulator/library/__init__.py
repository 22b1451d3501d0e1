"""Simulated `libnvidia-ml.so.1`, one file for each family of functions."""
