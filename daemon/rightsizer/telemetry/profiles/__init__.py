"""Formats of profilers, read into one model."""
