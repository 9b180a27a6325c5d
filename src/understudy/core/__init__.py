"""The vocabulary: what passes between the parts, their protocols, and small tools for all."""
