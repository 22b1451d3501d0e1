"""The report of a node and its wordings: labels, documents, export, explanation, JSON encoders."""
