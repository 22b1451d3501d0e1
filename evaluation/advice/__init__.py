"""Advice on simulated nodes and months beside what was planted in them."""
