"""Where readings come from: live, recorded, simulated."""
