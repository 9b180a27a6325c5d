"""The report of a study: figures, texts, one HTML page."""
