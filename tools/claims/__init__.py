"""The page of the papers' claims: from exported cells to docs/results.md. Not in the wheel."""
