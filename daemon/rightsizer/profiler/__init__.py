"""Profiler: files of profilers, findings over them, capture of profiles."""
