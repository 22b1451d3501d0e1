"""Labeled workloads on a real GPU: programs, their recorder, recordings, and their scores."""
