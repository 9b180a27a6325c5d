"""The round of a live federation: its state, who takes part, the outcome of each client."""
