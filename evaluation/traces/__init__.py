"""Recordings of production, replayed: states, sizing, idle windows, autoscaling."""
