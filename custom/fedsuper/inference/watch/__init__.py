"""`fedsuper watch`: a folder for the clinic. What arrives in the inbox gets a mask in the outbox, exactly once."""
