"""What /proc and /sys tell.

Processes, control groups, pressure, disks, network, NUMA and PCIe topology.
"""
