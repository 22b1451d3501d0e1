"""Profiles taken at the right moment, and read where they land."""
