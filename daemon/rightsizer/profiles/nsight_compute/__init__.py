"""Nsight Compute: CSV pages, and reports through the vendor's module."""
