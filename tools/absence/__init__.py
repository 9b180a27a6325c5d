"""The page of the benchmark of absent clients, from exported cells: ``python -m tools.absence``."""
