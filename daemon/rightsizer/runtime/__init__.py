"""The wiring: which parts run, when, and how they stop."""
