"""What an agent answers, loses and recovers from under each fault that can be planted here."""
