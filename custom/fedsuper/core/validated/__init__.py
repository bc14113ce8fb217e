"""What validation images decide once training is over: selector and gate, cleaning of masks, how good a mask is."""
