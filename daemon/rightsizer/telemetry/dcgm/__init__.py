"""Readings of a dcgm-exporter, parsed from its text."""
