"""Rightsizer: accounts for every second of every GPU and says what size it should have been."""

__version__ = "1.0.0rc1"
