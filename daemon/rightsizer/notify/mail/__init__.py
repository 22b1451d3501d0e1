"""Mail: the changes of a run as one message, by SMTP."""
