"""Answers, losses and recovery of an agent under each fault that can be planted here."""
