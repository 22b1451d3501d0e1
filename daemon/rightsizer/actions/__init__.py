"""Actions on advice: decided, carried out at most once, audited."""
