"""Parts of a strategy and of a simulation: samplers, compensators, availability, servers, …."""
