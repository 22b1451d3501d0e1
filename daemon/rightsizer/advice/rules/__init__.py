"""One file a rule: its settings and one function."""
