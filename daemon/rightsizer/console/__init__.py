"""Shared parts of commands: tables, wrapped text, flags, output, errors."""
