"""Views of the page: pure functions from the report to plain values for templates."""
