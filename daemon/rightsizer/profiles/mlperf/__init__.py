"""Logs of MLPerf's load generator and of training runs."""
