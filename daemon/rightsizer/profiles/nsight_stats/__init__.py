"""Tables of `nsys stats`, as CSV and as JSON."""
