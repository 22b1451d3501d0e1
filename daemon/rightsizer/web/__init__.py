"""The agent's HTTP server: metrics, health, JSON API and the page."""
