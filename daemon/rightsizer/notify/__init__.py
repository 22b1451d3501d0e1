"""Delivery of changes of advice: Grafana annotations and webhooks."""
