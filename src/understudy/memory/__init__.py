"""Rows on disk or in memory, and the folder that a run is kept in."""
