"""The whole reasoning behind a verdict, with the queries that lead to its numbers."""
