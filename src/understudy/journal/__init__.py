"""The journal of a run: one codec of `RoundLog`, places to write to, one reader."""
