"""One SQLite file for the rounds of all cells, and the trained models."""
