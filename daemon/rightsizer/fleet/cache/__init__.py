"""Cache of per-device days: frames, their codec, and SQLite."""
