"""States and conditions beside labels: of scenarios, of logs that lack columns, of jobs."""
