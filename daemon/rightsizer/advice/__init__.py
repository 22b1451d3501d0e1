"""Recommendations: what to change, why, how sure it is, and what came of it."""
