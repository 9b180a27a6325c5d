"""Who the clients of a live federation are: their ids, their numbers, and who may join."""
