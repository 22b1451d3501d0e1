"""Edges to the outside: clock, files, YAML, SQLite, HTTP, sockets, worker threads, protobuf."""
