"""Rightsizer: accounts for every second of every GPU and says what size it should have been."""

__version__ = "0.1.0"
