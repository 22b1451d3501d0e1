"""Recordings as a source: logs of other programs, and the native format."""
