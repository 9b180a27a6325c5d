"""What one chooses: samplers, compensators, availability, delays, local training, servers."""
