"""What to change, why, how sure it is, and what came of it."""
