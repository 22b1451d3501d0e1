"""HTTP server of the agent: metrics, health, JSON API, page."""
