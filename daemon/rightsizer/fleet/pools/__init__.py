"""Pools of machines: free capacity, reclaimable capacity, packing and placement of waiting work."""
