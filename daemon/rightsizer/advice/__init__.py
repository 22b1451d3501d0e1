"""Recommendations: what to change, why, with what confidence, and with what outcome."""
