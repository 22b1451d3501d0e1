"""What is known of GPUs before anything runs on them."""
