"""How what is known leaves the agent."""
