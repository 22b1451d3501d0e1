"""Accounting of each device's time and energy."""
