"""Which GPUs of a node to give to whom, and when; pure, and asked by the agent and the command."""
