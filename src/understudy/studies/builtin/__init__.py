"""Studies to start with; those of the papers are in `understudy.papers`."""
