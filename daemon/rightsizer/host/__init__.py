"""Host data from /proc and /sys: processes, cgroups, pressure, disks, network, topology."""
