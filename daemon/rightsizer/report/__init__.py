"""Report of a node, with labels, documents, export, explanation and JSON encoders."""
