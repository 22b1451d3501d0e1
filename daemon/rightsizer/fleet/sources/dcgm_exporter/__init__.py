"""Fleet source: metrics of dcgm-exporter, for nodes without an agent."""
