"""Nsight Compute: its CSV pages, and its own reports through the vendor's module."""
