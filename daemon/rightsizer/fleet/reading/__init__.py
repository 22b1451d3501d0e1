"""What is asked of a store: the plan of it, its harvest, and what a store did not have."""
