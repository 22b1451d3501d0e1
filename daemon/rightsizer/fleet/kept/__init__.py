"""Days that are kept: their columns, their sums, their blocks, and the file that holds them."""
