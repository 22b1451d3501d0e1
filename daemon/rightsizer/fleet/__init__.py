"""Cluster-wide recommendations from any store that answers the Prometheus HTTP API."""
