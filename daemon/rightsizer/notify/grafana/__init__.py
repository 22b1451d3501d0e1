"""Grafana annotations over its HTTP API."""
