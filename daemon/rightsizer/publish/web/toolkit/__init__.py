"""The web configuration file that all Prometheus exporters share: TLS, users, headers, limits."""
