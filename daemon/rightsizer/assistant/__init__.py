"""Answers of the commands for AI assistants, over the Model Context Protocol."""
