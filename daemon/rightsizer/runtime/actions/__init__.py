"""What an operator lets the agent do on advice: decided, done at most once, and written down."""
