"""What travels between the server of a live federation and its clients, and its checks."""
