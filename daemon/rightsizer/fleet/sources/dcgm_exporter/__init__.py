"""Estates that a dcgm-exporter watches, where no agent is installed."""
