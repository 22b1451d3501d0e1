"""Estates in real stores, and which planted faults the fleet recommender finds in them."""
