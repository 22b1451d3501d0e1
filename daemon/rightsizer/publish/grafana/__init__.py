"""Grafana: annotations over its HTTP API, delivered at leisure."""
