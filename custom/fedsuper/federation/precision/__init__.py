"""How many bits a model's numbers travel with in the rounds (`wire`), and what becomes of the rest of them."""
