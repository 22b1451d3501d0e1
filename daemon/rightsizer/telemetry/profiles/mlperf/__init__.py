"""Logs of MLPerf's load generator and training runs."""
