"""What a dcgm-exporter says, read from its text; our own gauges are read the same way."""
