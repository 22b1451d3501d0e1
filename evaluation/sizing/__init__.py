"""Memory, serving, training and ratios between boards beside published figures."""
