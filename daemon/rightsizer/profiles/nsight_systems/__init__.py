"""Nsight Systems: its SQLite export, and reports through the vendor's program."""
