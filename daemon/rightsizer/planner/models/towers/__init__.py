"""Parts of a model that see or hear, and what they take in memory."""
