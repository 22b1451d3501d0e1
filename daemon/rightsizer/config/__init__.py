"""The configuration file: its shape, its faults, its documentation."""
