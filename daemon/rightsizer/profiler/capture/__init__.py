"""Capture of profiles at the right moment, and reading of files in the drop folder."""
