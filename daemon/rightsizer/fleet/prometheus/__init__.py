"""Store over the HTTP API of Prometheus, Thanos Query, Mimir, Cortex and VictoriaMetrics."""
