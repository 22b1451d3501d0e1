"""Models whose layers keep a state of a request: state spaces and their hybrids."""
