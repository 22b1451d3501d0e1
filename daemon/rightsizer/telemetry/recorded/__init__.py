"""The source that repeats a recording: logs of other programs, and our own format."""
