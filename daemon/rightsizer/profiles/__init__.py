"""Readers of profiler formats, all into one model."""
