"""The round, and what survives it: state, admission, checkpoints, `Strategy`."""
