"""The round of a live federation: its state, who takes part, what became of each client."""
