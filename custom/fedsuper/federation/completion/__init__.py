"""After the last round: the sites measure the finished super model, the server completes it by what they tell."""
