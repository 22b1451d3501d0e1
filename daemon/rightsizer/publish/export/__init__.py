"""The history as rows of a table: which columns there are, and the formats they are written in."""
