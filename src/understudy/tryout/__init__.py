"""From a table in a file to an answer: what is lost when clients are missing, and what helps."""
