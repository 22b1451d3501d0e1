"""Dashboards as code: `python -m grafana.generate` writes dashboards/*.json."""
