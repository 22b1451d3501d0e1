"""Serving engines as planned: layout, prediction beside measurement, findings, residuals."""
