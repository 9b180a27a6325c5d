"""Slow twins: each algorithm once more, from the papers' equations, in plain float64 loops."""
