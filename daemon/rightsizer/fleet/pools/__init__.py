"""Pools of machines: what is free of them, what could be, and how work would lie on fewer."""
