"""The words and values that every room speaks in; the standard library only."""
