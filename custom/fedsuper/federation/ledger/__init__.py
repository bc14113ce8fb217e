"""What the server writes down of its sites while a study runs: what travelled, and who was there."""
