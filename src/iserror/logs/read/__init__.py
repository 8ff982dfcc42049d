"""The reading side of the log: search by id, follow, summarize. It loads neither pydantic nor structlog."""
