"""Metrics of a report: Prometheus text, OpenMetrics, and dcgm-exporter's names."""
