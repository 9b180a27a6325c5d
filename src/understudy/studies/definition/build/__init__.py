"""From tables of a study to parts, strategies and data."""
