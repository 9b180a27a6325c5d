"""Samplers: which clients a round should represent."""
