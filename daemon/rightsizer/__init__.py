"""Rightsizer: accounts for every second of every GPU and says what size it should have been."""

from rightsizer.interface import catalogue, fleet, plan, profile, replay

__version__ = "1.0.0rc1"
__all__ = ["catalogue", "fleet", "plan", "profile", "replay"]
