"""Nsight Systems: its SQLite export, and its own reports through the vendor's program."""
