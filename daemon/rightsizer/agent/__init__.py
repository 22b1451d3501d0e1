"""The agent: composition root, coordinator, jobs, storage, reload."""
