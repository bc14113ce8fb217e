"""What a method is, and what it sees of the server and of a site."""
