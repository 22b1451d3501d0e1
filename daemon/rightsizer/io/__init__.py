"""External interfaces: clock, files, YAML, SQLite, HTTP, sockets, worker threads, protobuf."""
