"""Configuration file: shape, validation, documentation."""
