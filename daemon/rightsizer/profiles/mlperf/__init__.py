"""What MLPerf's load generator and its training runs log."""
