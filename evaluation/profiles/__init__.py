"""Findings and times of profilers' files beside labels and raw events."""
