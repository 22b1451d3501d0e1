"""Metrics of serving engines, tied to the GPUs they run on."""
