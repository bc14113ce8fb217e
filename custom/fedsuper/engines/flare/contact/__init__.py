"""How the server's process reaches its sites, and how it knows that they live."""
