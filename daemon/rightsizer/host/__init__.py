"""What /proc and /sys tell: processes, control groups, pressure, disks, network, topology."""
