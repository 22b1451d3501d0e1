"""Actions on advice: decided, executed at most once, audited."""
