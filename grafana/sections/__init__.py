"""Groups of panels that several dashboards share."""
