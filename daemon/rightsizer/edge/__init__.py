"""The thin edge that several rooms share: clock, YAML, SQLite, HTTP."""
