"""What serving engines say of themselves, tied to the GPUs that they run on."""
