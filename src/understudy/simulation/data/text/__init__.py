"""Text as numbers, and models of sequences."""
