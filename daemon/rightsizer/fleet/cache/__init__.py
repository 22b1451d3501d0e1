"""Cache of per-device days: frames, codec, SQLite cache, and their sums."""
