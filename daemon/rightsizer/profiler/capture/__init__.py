"""Capture of profiles at the right moment, and reading of what lands in the drop folder."""
