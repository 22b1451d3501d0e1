"""Cache of per-device days: frames, codec, SQLite cache, and what they sum up to."""
