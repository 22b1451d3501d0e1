"""Fleet source: metrics of dcgm-exporter, where no agent is installed."""
