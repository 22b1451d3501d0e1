"""The fleet recommender, wired: once, or over and over as a service."""
