"""Compensators: what represents the clients whose updates did not come."""
