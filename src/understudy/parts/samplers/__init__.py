"""Who to ask."""
