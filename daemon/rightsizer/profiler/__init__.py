"""Profiler: files of profilers, findings, capture."""
