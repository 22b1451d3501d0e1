"""Models as their published files describe them."""
