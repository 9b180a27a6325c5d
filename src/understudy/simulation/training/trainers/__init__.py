"""What trains the clients of a round: threads, processes, or a trainer of the user's own."""
