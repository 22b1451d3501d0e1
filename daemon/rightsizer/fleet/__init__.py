"""The estate: advice over any store that answers as Prometheus does."""
